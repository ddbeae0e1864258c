"""From a `--state` address to a backend. A backend is a row of the table below."""

from __future__ import annotations

import re
from pathlib import Path

from crawler.errors import StateMissing, UsageError
from crawler.state.port import CrawlState, WriteRows

FORMS = (
    "sqlite:///abs/path/state.sqlite, a file's path, redis://host:6379/0, aws://STACK, or aws:?queue=NAME&table=NAME"
)


def stack_of(address: str) -> str:
    """The stack that an address names, `aws://STACK` or `aws://STACK?…`; "" for any other address."""
    return address.removeprefix("aws://").partition("?")[0] if address.startswith("aws://") else ""


def spoken(address: str) -> str:
    """An address as people write it: a stack's without the names of its parts."""
    stack = stack_of(address)
    return f"aws://{stack}" if stack else address


async def open_state(
    address: str, *, worker: str, create: bool = False, write_rows: WriteRows | None = None
) -> CrawlState:
    """Open the state at `address` for `worker` (a name unique in the fleet, which owns the leases it claims).

    `create` permits to make it where that is possible (SQLite, Redis). `write_rows`: for a backend that ends pages by
    itself (AWS); without, it does not. Errors: UsageError for an address of no known
    form, StateMissing, StateMismatch, StateUnavailable.
    """
    if address.startswith("aws:?"):
        return await _aws(address.removeprefix("aws:"), worker, write_rows)
    scheme, separator, rest = address.partition("://")
    if not separator and not re.match(r"(sqlite|rediss?|aws):", address):
        return await _sqlite(address, worker, create)
    if scheme == "sqlite":
        return await _sqlite(rest.removeprefix("/") if rest == "/:memory:" else rest, worker, create)
    if scheme in ("redis", "rediss"):
        return await _redis(address, worker, create)
    if scheme == "aws":
        return await _aws(rest, worker, write_rows)
    raise UsageError(f"--state {address!r} is of no known form: use {FORMS}")


async def _sqlite(path: str, worker: str, create: bool) -> CrawlState:
    from crawler.state.sqlite import SqliteState

    if path != ":memory:":
        file = Path(path)
        if file.is_dir():
            file /= "state.sqlite"
        if not create and not file.exists():
            raise StateMissing(f"there is no crawl state at {file}: give --state the file that `crawler crawl` made")
        path = str(file)
    return await SqliteState.open(path, worker=worker, create=create)


async def _redis(address: str, worker: str, create: bool) -> CrawlState:
    try:
        from crawler.state.redis import RedisState
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--state redis://… needs the Redis client ({error.name}): pip install 'crawler[redis]'"
        ) from None
    return await RedisState.open(address, worker=worker, create=create)


async def _aws(address: str, worker: str, write_rows: WriteRows | None) -> CrawlState:
    try:
        from crawler.state.aws.state import AwsState
    except ModuleNotFoundError as error:
        raise UsageError(f"--state aws://… needs the AWS client ({error.name}): pip install 'crawler[aws]'") from None
    return await AwsState.open(address, worker=worker, write_rows=write_rows)
