"""Whatever the wire does, only this package's errors come out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from botocore.exceptions import UnauthorizedSSOTokenError

from crawler.errors import StateUnavailable
from crawler.state.aws.client import Aws
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import pages
from tests.aws.proxy import Answer, Forward, Proxy

pytestmark = pytest.mark.usefixtures("impatient")

ALWAYS = 1_000

CALLS: dict[str, Callable[[AwsState], Awaitable[object]]] = {
    "BatchExecuteStatement": lambda state: state.add("c", pages(1)),
    "SendMessageBatch": lambda state: state.add("c", pages(1)),
    "ReceiveMessage": lambda state: state.claim(5),
    "BatchGetItem": lambda state: state.recall(["x"]),
    "PutItem": lambda state: state.remember("x", b"", 1.0),
    "UpdateItem": lambda state: state.hold("g", until=9e9),
    "GetQueueAttributes": lambda state: state.complete("c"),
    "Scan": lambda state: state.complete("c"),
}


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("how", ["dropped", "500", "throttled", "denied", "garbage"])
async def test_no_error_of_the_client_library_escapes(proxy: Proxy, opening: Open, operation: str, how: str) -> None:
    state = await opening()

    async def garbage(_: dict[str, Any], __: Forward) -> Answer:
        return {"nothing": "of use"}

    match how:
        case "dropped":
            proxy.drop(operation, times=ALWAYS)
        case "500":
            proxy.fail(operation, 500, "InternalServerError", times=ALWAYS)
        case "throttled":
            proxy.fail(operation, 400, "ThrottlingException", times=ALWAYS)
        case "denied":
            proxy.fail(operation, 400, "AccessDeniedException", times=ALWAYS)
        case _:
            proxy.on(operation, garbage, times=ALWAYS)
    if how == "garbage" and operation in {"PutItem", "ReceiveMessage", "SendMessageBatch"}:
        await CALLS[operation](state)  # an empty answer means success, or nothing
        return
    with pytest.raises(StateUnavailable) as caught:
        await CALLS[operation](state)
    assert "\n" not in str(caught.value)


async def test_an_answer_that_does_not_come_is_a_timeout(proxy: Proxy, opening: Open) -> None:
    state = await opening()
    silent = asyncio.Event()

    async def wait(_: dict[str, Any], forward: Forward) -> Answer:
        await silent.wait()
        return await forward()

    proxy.on("BatchGetItem", wait, times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await state.recall(["x"])
    silent.set()


@pytest.mark.parametrize("code", ["ExpiredToken", "ExpiredTokenException", "RequestExpired"])
async def test_credentials_that_were_good_once_are_told_how_to_renew(proxy: Proxy, opening: Open, code: str) -> None:
    state = await opening()
    proxy.fail("BatchGetItem", 400, code, times=ALWAYS)
    with pytest.raises(
        StateUnavailable, match=r"AWS refused BatchGetItem: .*; sign in again, for example with `aws sso"
    ):
        await state.recall(["x"])


async def test_a_sign_in_that_has_run_out_is_not_taken_for_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client library raises before it sends anything: a worker may wait for it, a person reads the line."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    aws = await Aws.connect()

    async def expired() -> None:
        raise UnauthorizedSSOTokenError

    with pytest.raises(StateUnavailable, match=r"^no AWS credentials: .* expired .*; sign in again"):
        await aws.ask(expired())
    await aws.close()
