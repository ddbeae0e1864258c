"""Where a practice run can crawl: fresh states with their stores, and the environment in which commands find them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import emulator, redis_server
from tests.emulator import Emulator, Template


@dataclass(frozen=True)
class Place:
    """A fresh state and store.

    `env` is the environment by which commands find both. `flush_every` is how many seconds a worker may keep pages that
    it has fetched before it writes them to this kind of store. `read` answers the bytes of a merged file.
    """

    env: Mapping[str, str]
    flush_every: float = 0.0
    read: Callable[[str], bytes] = lambda path: Path(path).read_bytes()


Backend = Callable[[Path, int], AbstractContextManager[Place]]
"""Makes a place in a folder, with leases of so many seconds."""


@contextmanager
def sqlite(folder: Path, lease: int) -> Iterator[Place]:
    """A state file and a folder."""
    out = folder / "out"
    yield Place({"CRAWLER_STATE": str(out / "state.sqlite"), "CRAWLER_STORE": str(out)})


@contextmanager
def redis(folder: Path, lease: int) -> Iterator[Place]:
    """A server of its own that writes every command to its file, and a folder."""
    with redis_server.running(folder / "redis", appendonly="yes") as server:
        yield Place({"CRAWLER_STATE": server.address("chaos"), "CRAWLER_STORE": str(folder / "out")})


@contextmanager
def aws(folder: Path, lease: int) -> Iterator[Place]:
    """The stack that `cdk synth` writes, in an emulator of its own."""
    synth = emulator.synthesize(folder / "cdk.out")
    assert synth.returncode == 0, synth.stderr
    template = emulator.read_template(folder / "cdk.out" / "Crawler.template.json")
    with emulator.running(folder / "emulator") as running:
        yield stack(running, template, "Chaos", lease)


def stack(running: Emulator, template: Template, name: str, lease: int) -> Place:
    """Deploy a copy of the template, with shorter leases than its configuration allows."""
    short = copy.deepcopy(template)
    for resource in short["Resources"].values():
        if resource["Type"] == "AWS::SQS::Queue" and "RedrivePolicy" in resource["Properties"]:
            resource["Properties"]["VisibilityTimeout"] = lease
    short["Outputs"]["Lease"]["Value"] = str(lease)
    running.deploy(short, name)

    def read(path: str) -> bytes:
        bucket, _, key = path.removeprefix("s3://").partition("/")
        body: bytes = running.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    # A bucket is written to once in a quarter of a lease: see crawler.archive.archive.
    return Place({**running.environment, "CRAWLER_STATE": f"aws://{name}"}, flush_every=lease / 4, read=read)


BACKENDS: Mapping[str, Backend] = {"sqlite": sqlite, "redis": redis, "aws": aws}
