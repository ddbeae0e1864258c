"""The one module that knows the AWS client library: clients, error translation, request counts, loops over leftovers.

Nothing of the library leaves it but answers: what a service says no to is `Refused`, what did not answer is
StateUnavailable. Every request is counted by operation, retries included, since each is billed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import aioboto3
import aiohttp
from aiobotocore.config import AioConfig
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from crawler.cost.usage import PROCESS
from crawler.errors import StateUnavailable, UsageError

if TYPE_CHECKING:
    from types_aiobotocore_dynamodb import DynamoDBClient
    from types_aiobotocore_sqs import SQSClient

T = TypeVar("T")

ROUNDS = 10
"""How often a batch is repeated for what a service left undone, before the state counts as unavailable."""

FAILURES = 4
"""Failures of a request, each after the client library's own tries, before the state counts as unavailable."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between two rounds, doubling from the one to the other, with jitter."""

LONGEST_POLL = 20
"""Seconds for which a request may wait at the server (SQS, WaitTimeSeconds)."""

IN_FLIGHT = 32
"""Requests in flight per process; the client's pool is a little larger."""

THROTTLED = frozenset(
    {
        "InternalServerError",
        "InternalError",
        "InternalFailure",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ServiceUnavailable",
        "ThrottlingError",
        "ThrottlingException",
        "Throttling",
        "TransactionConflict",
    }
)
"""Codes inside a 200 answer that say: the same again later."""

EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
"""Codes for credentials that were good once."""

SIGN_IN = "sign in again, for example with `aws sso login`"


class Refused(StateUnavailable):
    """A service's answer was an error. `code` is AWS's own; `item` is the item on which a condition failed, if told."""

    def __init__(self, code: str, text: str, item: dict[str, Any]) -> None:
        super().__init__(text)
        self.code, self.item = code, item


class Aws:
    """Clients of one process, and how many requests they made (`requests`, by `service.Operation`)."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.sqs: SQSClient
        self.polls: SQSClient
        self.dynamodb: DynamoDBClient
        self._session = aioboto3.Session()
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._stack = AsyncExitStack()
        self._closed = False

    @classmethod
    async def connect(cls) -> Aws:
        """Make the clients; sends nothing. Endpoint, region and credentials come from where AWS tools look for them."""
        try:
            aws = cls()
        except BotoCoreError as error:
            raise _usage(error) from None
        try:
            aws.sqs = await aws._enter("sqs", AioConfig(**TIMES))
            # For requests that wait at the server: a dead connection is to be noticed sooner by all others.
            waiting = TIMES | {"read_timeout": TIMES["read_timeout"] + LONGEST_POLL}
            aws.polls = await aws._enter("sqs", AioConfig(**waiting))
            # Items are built by this package: checking each value again would cost a sixth of a call.
            aws.dynamodb = await aws._enter("dynamodb", AioConfig(**TIMES, parameter_validation=False))
        except BaseException:
            await aws.close()
            raise
        return aws

    @property
    def region(self) -> str:
        """Where the clients send their requests."""
        return self.sqs.meta.region_name

    async def _enter(self, service: Any, config: AioConfig) -> Any:
        try:
            client = await self._stack.enter_async_context(self._session.client(service, config=config))
        except (BotoCoreError, ValueError) as error:
            raise _usage(error) from None
        self._watch(client)
        return client

    def _watch(self, client: Any) -> None:
        client.meta.events.register("before-send", self._count)  # first, for it may refuse
        PROCESS.watch(client)

    def _count(self, event_name: str, **_: object) -> None:
        if self._closed:  # the library would open connections anew, which nobody closes
            raise StateUnavailable("the crawl state was closed")
        self.requests[event_name.removeprefix("before-send.")] += 1

    async def close(self) -> None:
        self._closed = True
        await self._stack.aclose()

    async def ask(self, call: Awaitable[T], needed: str = "") -> T:
        """Await one request. Raises Refused, StateUnavailable (also for an answer without the member `needed`), and
        UsageError where credentials are missing."""
        try:
            async with self._slots:
                answer: Any = await call
        except ClientError as error:
            told = error.response.get("Error", {})
            item: dict[str, Any] = error.response.get("Item", {})  # type: ignore[assignment]
            text = f"{error.operation_name}: {told.get('Message') or told.get('Code') or 'no reason given'}"
            if told.get("Code") in EXPIRED:
                text = f"{text.rstrip('.')}; {SIGN_IN}"
            raise Refused(told.get("Code", ""), f"AWS refused {_one_line(text)}", item) from None
        except (NoCredentialsError, PartialCredentialsError, NoRegionError) as error:
            raise _usage(error) from None
        except (CredentialRetrievalError, TokenRetrievalError, SSOError) as error:
            # No UsageError: where a machine has them from a service, that may answer again.
            raise StateUnavailable(f"no AWS credentials: {_one_line(str(error)).rstrip('.')}; {SIGN_IN}") from None
        except (BotoCoreError, ResponseParserError, aiohttp.ClientError, OSError, TimeoutError) as error:
            raise StateUnavailable(f"AWS does not answer: {_one_line(str(error) or type(error).__name__)}") from None
        if needed and needed not in answer:
            raise StateUnavailable(f"an answer without {needed}: is this AWS?")
        return answer  # type: ignore[no-any-return]

    @asynccontextmanager
    async def client(self, service: str) -> AsyncGenerator[Any, None]:
        """A client of another service, for a few requests."""
        async with AsyncExitStack() as clients:
            try:
                made: Any = self._session.client(service, config=AioConfig(**TIMES))
                client = await clients.enter_async_context(made)
            except (BotoCoreError, ValueError) as error:
                raise _usage(error) from None
            self._watch(client)
            yield client

    async def stack_outputs(self, stack: str) -> dict[str, str]:
        """Outputs of a CloudFormation stack, by key."""
        async with self.client("cloudformation") as client:
            found: Any = (await self.ask(client.describe_stacks(StackName=stack), "Stacks"))["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in found[0].get("Outputs", [])}

    async def items(
        self, wanted: Sequence[tuple[str, str]], *, consistent: bool = True
    ) -> dict[tuple[str, str], dict[str, Any]]:
        """Read items by (table, pk), a hundred a request over all tables; absent ones are absent.

        A strongly consistent read sees a record that was written just before its message was sent. One that is not
        costs half, and may miss what was written within the last second.
        """
        found: dict[tuple[str, str], dict[str, Any]] = {}

        async def read(keys: list[tuple[str, str]]) -> list[tuple[str, str]]:
            asked: dict[str, Any] = {}
            for table, pk in keys:
                asked.setdefault(table, {"Keys": [], "ConsistentRead": consistent})["Keys"].append({"pk": {"S": pk}})
            answer = await self.ask(self.dynamodb.batch_get_item(RequestItems=asked), "Responses")
            for table, items in answer["Responses"].items():
                found.update({(table, item["pk"]["S"]): item for item in items})
            left = answer.get("UnprocessedKeys") or {}
            return [(table, key["pk"]["S"]) for table, rest in left.items() for key in rest["Keys"]]

        distinct = list(dict.fromkeys(wanted))
        await together([until_done(read, chunk) for chunk in chunks(distinct, 100)])
        return found

    async def statements(self, table_statements: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Run PartiQL statements, 25 a request, and answer each one's `Error` ({} for success), in order.

        Throttled statements are repeated until none is left. No two of a call may name one item: AWS refuses the batch.
        """
        errors: list[dict[str, Any]] = [{} for _ in table_statements]

        async def run(numbers: list[int]) -> list[int]:
            batch = [table_statements[number] for number in numbers]
            answer = await self.ask(self.dynamodb.batch_execute_statement(Statements=batch), "Responses")  # type: ignore[arg-type]
            left = []
            for number, response in zip(numbers, answer["Responses"], strict=True):
                errors[number] = dict(response.get("Error", {}))
                code = errors[number].get("Code", "")
                if code in THROTTLED:
                    left.append(number)
                elif code not in ("", "DuplicateItem", "ConditionalCheckFailed"):
                    raise Refused(code, f"AWS refused a statement: {errors[number].get('Message', code)}", {})
            return left

        await together([until_done(run, chunk) for chunk in chunks(range(len(table_statements)), 25)])
        return errors

    async def scan(self, table: str, **more: Any) -> AsyncGenerator[list[dict[str, Any]], None]:
        """Read a whole table, strongly consistent by page of at most 1 MB; yields the items of each page."""
        while True:
            answer = await self.ask(self.dynamodb.scan(TableName=table, ConsistentRead=True, **more), "Items")
            yield answer["Items"]
            if not answer.get("LastEvaluatedKey"):
                return
            more["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    async def delete(self, table: str, pks: Sequence[str]) -> None:
        """Delete items of distinct pk, 25 a request; absent ones are none."""

        async def delete(keys: list[str]) -> list[str]:
            wanted: dict[str, Any] = {table: [{"DeleteRequest": {"Key": {"pk": {"S": pk}}}} for pk in keys]}
            answer = await self.ask(self.dynamodb.batch_write_item(RequestItems=wanted))
            left: Any = (answer.get("UnprocessedItems") or {}).get(table, [])
            return [request["DeleteRequest"]["Key"]["pk"]["S"] for request in left]

        await together([until_done(delete, chunk) for chunk in chunks(pks, 25)])

    async def delete_between(self, table: str, first: str, last: str) -> None:
        """Delete every item whose pk lies between two. Reads the whole table."""
        async with aclosing(
            self.scan(
                table,
                FilterExpression="pk BETWEEN :first AND :last",
                ExpressionAttributeValues={":first": {"S": first}, ":last": {"S": last}},
                ProjectionExpression="pk",
            )
        ) as pages:
            async for items in pages:
                await self.delete(table, [item["pk"]["S"] for item in items])


TIMES: dict[str, Any] = {
    "connect_timeout": 3,
    "read_timeout": 15,
    "retries": {"mode": "standard", "total_max_attempts": 4},
    "max_pool_connections": IN_FLIGHT + 8,
}


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _usage(error: Exception) -> UsageError:
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return UsageError("no AWS credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if isinstance(error, NoRegionError):
        return UsageError("no AWS region: set AWS_DEFAULT_REGION, or one in the profile (AWS_REGION is not read)")
    return UsageError(f"the AWS settings cannot be used: {_one_line(str(error))}")


def chunks(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Cut a sequence into lists of at most `size`."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


async def together(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run calls side by side and wait for all, also when one fails: then its error is raised."""
    if len(calls) == 1:
        return [await calls[0]]
    results = await asyncio.gather(*calls, return_exceptions=True)
    answers: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        answers.append(result)
    return answers


async def until_done(step: Callable[[list[T]], Awaitable[list[T]]], items: list[T]) -> None:
    """Repeat `step`, which answers what it left undone, until nothing is left; pauses grow in between.

    A step that fails for the moment has left all undone, and is repeated alone: were the whole call repeated for one of
    its many requests, large calls would hardly ever succeed on a bad day.
    """
    pause, failures = FIRST_PAUSE, 0
    for _ in range(ROUNDS):
        try:
            items = await step(items)
        except StateUnavailable as error:
            failures += 1
            if failures == FAILURES or (isinstance(error, Refused) and error.code not in THROTTLED):
                raise
        if not items:
            return
        await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311
        pause = min(pause * 2, LONGEST_PAUSE)
    raise StateUnavailable(f"AWS throttles: {len(items)} items of a batch are still undone")
