"""Every number of the stack, read from cdk context (`-c name=value`, or `context` in cdk.json) and checked once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

MEMORY_FOR_CPU: dict[int, Sequence[int]] = {
    256: (512, 1024, 2048),
    512: range(1024, 4096 + 1, 1024),
    1024: range(2048, 8192 + 1, 1024),
    2048: range(4096, 16384 + 1, 1024),
    4096: range(8192, 30720 + 1, 1024),
}
"""What Fargate sells: MiB of memory by CPU units."""


class ConfigError(Exception):
    """The context makes no sense. The text is one line that says what to change."""


class StackConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The context's own names are the camelCase forms.

    lease: seconds a worker may hold a URL; the queues' visibility timeout.
    max_receive_count: deliveries before a message is taken for a killer of workers and becomes a dead letter. Not the
        retries of a page: those are counted by failures, in the message.
    cpu, memory: one worker's, in Fargate's units (1024 = one vCPU) and MiB.
    spot: run workers on Fargate Spot, at about a third of the price, stopped with two minutes' notice.
    retain_data: tables and bucket outlive the stack.
    image: URI of a ready container image; empty = built by `cdk deploy` from the Dockerfile.
    """

    stack_name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,127}$")] = "Crawler"
    lease: Annotated[int, msgspec.Meta(ge=30, le=12 * 3600)] = 120
    max_receive_count: Annotated[int, msgspec.Meta(ge=5, le=1000)] = 10
    max_workers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 8
    cpu: int = 512
    memory: int = 1024
    spot: bool = True
    retain_data: bool = True
    image: str = ""


_OWN_NAME = re.compile(r"[A-Za-z]+")
"""Context of the CDK itself is spelled with `:`, `/`, `@` or `-`; a bare word is meant for this app."""


def stack_config(context: Mapping[str, Any]) -> StackConfig:
    """Validate what the context says; `-c` gives strings, cdk.json real types. Raises ConfigError."""
    given = {name: value for name, value in context.items() if _OWN_NAME.fullmatch(name)}
    known = sorted(msgspec.structs.fields(StackConfig), key=lambda field: field.encode_name)
    names = [field.encode_name for field in known]
    if unknown := sorted(given.keys() - set(names)):
        raise ConfigError(f"-c {unknown[0]}: there is no such setting; known are {', '.join(names)}")
    try:
        config = msgspec.convert(given, StackConfig, strict=False)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        raise ConfigError(f"-c {name}={given[name]}: {text[0].lower()}{text[1:]}") from None
    _check_size(config)
    return config


def _check_size(config: StackConfig) -> None:
    sizes = MEMORY_FOR_CPU.get(config.cpu)
    if sizes is None:
        raise ConfigError(f"-c cpu={config.cpu}: Fargate has {', '.join(map(str, MEMORY_FOR_CPU))}")
    if config.memory not in sizes:
        choice = ", ".join(map(str, sizes)) if len(sizes) < 8 else f"{sizes[0]} to {sizes[-1]} in steps of 1024"
        raise ConfigError(f"-c memory={config.memory}: with cpu={config.cpu} Fargate has {choice} MiB")
