"""From the address of an AWS state to the names of its queues, tables and bucket.

Names only: hosts are the client's business, so that an endpoint can be set from outside.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec

from crawler.errors import StateMissing, UsageError
from crawler.state.aws.client import Aws, Refused


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What a state consists of. `lanes` are queue names by priority, high first; equal names share a queue.
    `functions_only`: nothing but functions fetches there, which have no module of a user's."""

    lanes: tuple[str, str, str]
    table: str
    control: str
    dead_letters: str = ""
    bucket: str = ""
    functions_only: bool = False


FORMS = "use aws://STACK or aws:?queue=NAME&table=NAME"

_KEYS = frozenset({"queue", "high", "low", "dlq", "table", "control", "bucket", "fetchers"})


async def names(address: str, aws: Aws) -> Names:
    """Read an address: `?queue=…&table=…`, a stack's name, or both. Raises UsageError, StateMissing, StateUnavailable.

    Where the parts are named nobody is asked for them: CloudFormation answers an account some ten times a second, too
    seldom for functions that start by the hundred.
    """
    stack, named, query = address.partition("?")
    if named:
        return parse(query)
    if not stack:
        raise UsageError(f"aws:// names no stack: {FORMS}")
    return await _from_stack(stack, aws)


def parse(query: str) -> Names:
    """Read the form without a stack: `queue` and `table` are required, what is missing falls back on them."""
    try:
        given = dict(parse_qsl(query, strict_parsing=True))
    except ValueError:
        given = {}
    unknown = sorted(given.keys() - _KEYS)
    if unknown or not given.get("queue") or not given.get("table"):
        what = f"{unknown[0]!r} is not known there" if unknown else "queue and table are required"
        optional = ", ".join(sorted(_KEYS - {"queue", "table"}))
        raise UsageError(f"--state aws:?{query}: {what}: aws:?queue=NAME&table=NAME, optional {optional}")
    queue, table = given["queue"], given["table"]
    return Names(
        lanes=(given.get("high", queue), queue, given.get("low", queue)),
        table=table,
        control=given.get("control", table),
        dead_letters=given.get("dlq", ""),
        bucket=given.get("bucket", ""),
        functions_only=given.get("fetchers") == "lambda",
    )


async def _from_stack(stack: str, aws: Aws) -> Names:
    try:
        outputs = await aws.stack_outputs(stack)
    except Refused as error:
        if error.code == "ValidationError":
            place = f"this AWS account and region ({aws.region})"
            raise StateMissing(
                f"there is no stack {stack!r} in {place}: deploy it first, or name the right one"
            ) from None
        raise
    missing = sorted({"FrontierHigh", "FrontierNormal", "FrontierLow", "VisitedTable", "ControlTable"} - outputs.keys())
    if missing:
        raise StateMissing(
            f"the stack {stack!r} is no crawler stack, or not yet deployed: it has no output {missing[0]}"
        )
    return Names(
        lanes=(outputs["FrontierHigh"], outputs["FrontierNormal"], outputs["FrontierLow"]),
        table=outputs["VisitedTable"],
        control=outputs["ControlTable"],
        dead_letters=outputs.get("DeadLetters", ""),
        bucket=outputs.get("ArchiveBucket", ""),
        functions_only="FetcherFunction" in outputs and "Service" not in outputs,
    )
