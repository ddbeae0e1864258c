"""Every number of the stack, read from cdk context (`-c name=value`, or `context` in cdk.json) and checked once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

MEMORY_FOR_CPU: dict[int, Sequence[int]] = {
    256: (512, 1024, 2048),
    512: range(1024, 4096 + 1, 1024),
    1024: range(2048, 8192 + 1, 1024),
    2048: range(4096, 16384 + 1, 1024),
    4096: range(8192, 30720 + 1, 1024),
}
"""What Fargate sells: MiB of memory by CPU units."""


DEFAULT_LEASE = 120
SHORTEST_LEASE = 30
"""Seconds."""

VISIBILITY_PER_TIMEOUT = 6
BATCHING_WINDOW = 5
"""Seconds that Lambda waits for a batch to fill, when it may hold more than ten messages. A message must stay invisible
for at least so long and six times the function's timeout, which is what Lambda recommends."""


class ConfigError(Exception):
    """The context makes no sense. The text is one line that says what to change."""


class StackConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The context's own names are the camelCase forms.

    fetchers: what fetches: Fargate tasks, Lambda functions on the queues, or both at once.
    lease: seconds a worker may hold a URL; the queues' visibility timeout. 0 = 120, or where functions fetch the least
        that Lambda recommends: six times `function_timeout`, and the time that a batch takes to fill.
    max_receive_count: deliveries before a message is taken for a killer of workers and becomes a dead letter. Not the
        retries of a page: those are counted by failures, in the message.
    max_workers: most Fargate tasks at a time, and most calls at a time of the function by each of the lanes High and
        Normal; Low may have a quarter of that.
    cpu, memory: one Fargate worker's, in Fargate's units (1024 = one vCPU) and MiB.
    spot: run workers on Fargate Spot, at about a third of the price, stopped with two minutes' notice.
    on_demand_base: that many of the workers are on demand before the first is on Spot.
    backlog_per_worker: messages that must wait for each worker before there is one more.
    idle_minutes: how long the frontier must be empty before the last worker stops; at least 5, for SQS reports late.
    function_memory, function_timeout, function_batch: one fetcher function's MiB, seconds, and most URLs a call.
    janitor_minutes: between two looks of the janitor.
    alarm_email: where alarms and the budget write to; empty = nowhere.
    schedule, seeds_key: begin a crawl of the URLs in this object of the archive's bucket at these times
        (`rate(1 day)`, `cron(…)`); both or neither.
    archive_days: archived files expire at this age; 0 = never. Each counts from when it was written: a crawl that takes
        longer loses its first files before they are merged.
    log_days: how long log lines are kept.
    retain_data: tables and bucket outlive the stack.
    athena: a Glue table over the Parquet files and saved queries.
    budget: dollars a month of the stack from which on `alarm_email` is warned; 0 = no budget.
    image: URI of a ready container image; empty = built by `cdk deploy` from the Dockerfile.
    """

    stack_name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,127}$")] = "Crawler"
    fetchers: Literal["fargate", "lambda", "both"] = "fargate"
    lease: Annotated[int, msgspec.Meta(ge=0, le=12 * 3600)] = 0
    max_receive_count: Annotated[int, msgspec.Meta(ge=5, le=1000)] = 10
    max_workers: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 8
    cpu: int = 512
    memory: int = 1024
    spot: bool = True
    on_demand_base: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    backlog_per_worker: Annotated[int, msgspec.Meta(ge=1)] = 5_000
    idle_minutes: Annotated[int, msgspec.Meta(ge=5, le=60)] = 10
    function_memory: Annotated[int, msgspec.Meta(ge=256, le=10_240)] = 1024
    function_timeout: Annotated[int, msgspec.Meta(ge=30, le=900)] = 60
    function_batch: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    janitor_minutes: Annotated[int, msgspec.Meta(ge=1, le=60)] = 5
    alarm_email: Annotated[str, msgspec.Meta(pattern=r"^$|^[^@\s]+@[^@\s]+$")] = ""
    schedule: Annotated[str, msgspec.Meta(pattern=r"^$|^(rate|cron)\(.+\)$")] = ""
    seeds_key: str = ""
    archive_days: Annotated[int, msgspec.Meta(ge=0)] = 0
    log_days: Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365] = 30
    retain_data: bool = True
    athena: bool = False
    budget: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    image: str = ""

    @property
    def on_fargate(self) -> bool:
        return self.fetchers != "lambda"

    @property
    def on_lambda(self) -> bool:
        return self.fetchers != "fargate"

    @property
    def visibility(self) -> int:
        """Seconds of the lease."""
        return self.lease or (self.shortest_for_functions if self.on_lambda else DEFAULT_LEASE)

    @property
    def shortest_for_functions(self) -> int:
        """Seconds: the shortest lease where functions fetch."""
        return VISIBILITY_PER_TIMEOUT * self.function_timeout + BATCHING_WINDOW


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
    _check_together(config)
    return config


def _check_size(config: StackConfig) -> None:
    sizes = MEMORY_FOR_CPU.get(config.cpu)
    if sizes is None:
        raise ConfigError(f"-c cpu={config.cpu}: Fargate has {', '.join(map(str, MEMORY_FOR_CPU))}")
    if config.memory not in sizes:
        choice = ", ".join(map(str, sizes)) if len(sizes) < 8 else f"{sizes[0]} to {sizes[-1]} in steps of 1024"
        raise ConfigError(f"-c memory={config.memory}: with cpu={config.cpu} Fargate has {choice} MiB")


def _check_together(config: StackConfig) -> None:
    """What makes sense alone and not beside another setting."""
    if 0 < config.lease < SHORTEST_LEASE:
        raise ConfigError(f"-c lease={config.lease}: give at least {SHORTEST_LEASE} seconds")
    if config.on_lambda and config.visibility < config.shortest_for_functions:
        raise ConfigError(
            f"-c lease={config.lease}: with functions it must be at least {config.shortest_for_functions} seconds: "
            f"{VISIBILITY_PER_TIMEOUT} times functionTimeout, and {BATCHING_WINDOW} for a batch to fill"
        )
    if config.on_lambda and config.max_workers < 2:
        raise ConfigError("-c maxWorkers=1: an event source of Lambda runs at least 2 invocations at a time")
    if bool(config.schedule) != bool(config.seeds_key):
        raise ConfigError("-c schedule and -c seedsKey go together: when to begin, and the object that lists the URLs")
    if config.on_demand_base > config.max_workers:
        raise ConfigError(f"-c onDemandBase={config.on_demand_base}: there are at most {config.max_workers} workers")
    if config.budget and not config.alarm_email:
        raise ConfigError("-c budget needs -c alarmEmail: whom to warn")
