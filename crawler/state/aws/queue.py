"""The frontier: standard queues, one a priority lane. The visibility timeout is the lease.

Batches of ten everywhere. A receipt is the number of the lane and the receipt handle; a stale one does no harm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from crawler.errors import StateMissing
from crawler.state.aws.client import THROTTLED, Aws, Refused, chunks, together, until_done

if TYPE_CHECKING:
    from types_aiobotocore_sqs import SQSClient

BATCH = 10
"""Messages a request, in every operation of SQS."""

REQUEST_BYTES = 262_144
"""Bytes of one SendMessageBatch, all bodies and attributes together: the smaller of the limits AWS has had."""

LONGEST_DELAY = 900
"""Seconds a message can be delayed (SQS, DelaySeconds). Longer waits take several sends."""

DEAD = 3
"""Number of the dead-letter queue, which is no lane: behind the three."""

GONE = frozenset({"ReceiptHandleIsInvalid", "AWS.SimpleQueueService.ReceiptHandleIsInvalid"})
NOT_IN_FLIGHT = frozenset({"MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight"})


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message to send: `lane` is the lane's number, `delay` seconds, at most LONGEST_DELAY."""

    lane: int
    body: str
    group: str
    delay: int = 0

    @property
    def size(self) -> int:
        return len(self.body) + len(self.group) + 100


class Received(msgspec.Struct, frozen=True, gc=False):
    """A message in our hands until `expires_at` (Unix seconds). `receives` counts deliveries of this very message."""

    id: str
    receipt: str
    body: str
    receives: int
    expires_at: float


class Depth(msgspec.Struct, frozen=True):
    """Approximate numbers of messages over all lanes."""

    visible: int = 0
    in_flight: int = 0
    delayed: int = 0

    @property
    def total(self) -> int:
        return self.visible + self.in_flight + self.delayed


class Queues:
    """The lanes, high first, and the dead-letter queue. Lanes of one name are one queue: `distinct` names each queue
    once. `lease` is the queues' own: their visibility timeout in seconds."""

    def __init__(
        self, aws: Aws, urls: tuple[str, str, str], dead_letters: str, lease: int, clock: Callable[[], float]
    ) -> None:
        self._aws, self._urls, self.lease, self._clock = aws, list(urls), lease, clock
        self._dead_letters = dead_letters
        self._depth: tuple[Depth, float] = (Depth(), 0.0)
        self._lent: dict[str, bool] = {}
        self.distinct = [lane for lane, url in enumerate(urls) if url not in urls[:lane]]

    @classmethod
    async def open(cls, aws: Aws, names: tuple[str, str, str], dead_letters: str, clock: Callable[[], float]) -> Queues:
        """Find the lanes by name. Raises StateMissing. `dead_letters` may be "": then none is known."""
        high, normal, low = await together([_find(aws, name) for name in names])
        answer = await aws.ask(
            aws.sqs.get_queue_attributes(QueueUrl=normal, AttributeNames=["VisibilityTimeout"]), "Attributes"
        )
        return cls(aws, (high, normal, low), dead_letters, int(answer["Attributes"]["VisibilityTimeout"]), clock)

    def lane(self, number: int) -> int:
        """The number under which a lane's queue is known in `distinct`."""
        return self._urls.index(self._urls[number])

    def number(self, name: str) -> int | None:
        """The number of the lane whose queue has this name; None for a queue that is no lane."""
        return next((lane for lane in self.distinct if self._urls[lane].rpartition("/")[2] == name), None)

    def lend(self, receipts: Iterable[str]) -> None:
        """Messages that somebody else received, who deletes those that are deleted here, and sees to it that the
        others stay invisible for long enough."""
        self._lent = dict.fromkeys(receipts, False)

    def take_back(self) -> list[str]:
        """The receipts of those that were not deleted here. From now on none is lent."""
        lent, self._lent = self._lent, {}
        return [receipt for receipt, deleted in lent.items() if not deleted]

    async def find_dead_letters(self) -> bool:
        """Whether there is a dead-letter queue to receive from, as number DEAD. Raises StateMissing.

        Found when it is first needed: a worker has no business there, and perhaps no right.
        """
        if self._dead_letters and len(self._urls) == DEAD:
            self._urls.append(await _find(self._aws, self._dead_letters))
        return len(self._urls) > DEAD

    async def send(self, outgoing: Sequence[Outgoing]) -> list[Outgoing]:
        """Put messages on their lanes. Answers those that SQS refuses for good; all others are on the queue."""
        self._depth = Depth(), 0.0
        refused: list[Outgoing] = []
        lanes: dict[int, list[Outgoing]] = defaultdict(list)
        for message in outgoing:
            lanes[self.lane(message.lane)].append(message)
        await together([self._send(lane, batch, refused) for lane, all_ in lanes.items() for batch in packed(all_)])
        return refused

    async def _send(self, lane: int, batch: list[Outgoing], refused: list[Outgoing]) -> None:
        async def send(messages: list[Outgoing]) -> list[Outgoing]:
            entries: list[Any] = [
                {"Id": str(number), "MessageBody": message.body, "MessageGroupId": message.group}
                | ({"DelaySeconds": message.delay} if message.delay else {})
                for number, message in enumerate(messages)
            ]
            answer = await self._aws.ask(self._aws.sqs.send_message_batch(QueueUrl=self._urls[lane], Entries=entries))
            left: list[Outgoing] = []
            for failed in answer.get("Failed", []):
                for_good = failed["SenderFault"] and failed["Code"] not in THROTTLED
                (refused if for_good else left).append(messages[int(failed["Id"])])
            return left

        await until_done(send, batch)

    async def receive(self, lane: int, most: int, wait: int) -> list[Received]:
        """Take at most `most` (1 to 10) messages of a lane, waiting up to `wait` seconds for the first."""
        return await self._receive(self._aws.sqs, lane, most, wait, self.lease)

    async def poll(self, lane: int, wait: int, grasp: int) -> list[Received]:
        """Take ten messages of a lane, waiting up to `wait` seconds for the first, for `grasp` seconds only."""
        return await self._receive(self._aws.polls, lane, BATCH, wait, min(grasp, self.lease))

    async def grip(self, received: Sequence[Received]) -> list[Received]:
        """Keep messages for a whole lease from now on; answers those that were not gone yet."""
        now = self._clock()
        refused = await self.change([message.receipt for message in received], self.lease)
        kept = [message for message in received if message.receipt not in refused]
        return [msgspec.structs.replace(message, expires_at=now + self.lease) for message in kept]

    async def _receive(self, client: SQSClient, lane: int, most: int, wait: int, seconds: int) -> list[Received]:
        at = self._clock()  # before the request: a lease must not seem to last longer than it does
        answer = await self._aws.ask(
            client.receive_message(
                QueueUrl=self._urls[lane],
                MaxNumberOfMessages=most,
                WaitTimeSeconds=wait,
                VisibilityTimeout=seconds,
                AttributeNames=["ApproximateReceiveCount"],
            )
        )
        if answer.get("Messages"):
            self._depth = Depth(), 0.0
        return [
            Received(
                message["MessageId"],
                f"{lane}:{message['ReceiptHandle']}",
                message["Body"],
                int(message["Attributes"]["ApproximateReceiveCount"]),
                at + seconds,
            )
            for message in answer.get("Messages", [])
        ]

    async def delete(self, receipts: Sequence[str]) -> None:
        """Take messages off their queues. One whose handle is stale is somebody else's by now and stays."""
        self._depth = Depth(), 0.0
        self._lent |= {receipt: True for receipt in receipts if receipt in self._lent}
        receipts = [receipt for receipt in receipts if receipt not in self._lent]

        async def delete(lane: int, handles: list[str]) -> list[str]:
            entries: list[Any] = [{"Id": str(i), "ReceiptHandle": handle} for i, handle in enumerate(handles)]
            answer = await self._aws.ask(self._aws.sqs.delete_message_batch(QueueUrl=self._urls[lane], Entries=entries))
            return [handles[int(f["Id"])] for f in answer.get("Failed", []) if not _final(f["Code"], f["SenderFault"])]

        calls = []
        for lane, batch in self._batches(receipts):

            async def step(handles: list[str], lane: int = lane) -> list[str]:
                return await delete(lane, handles)

            calls.append(until_done(step, batch))
        await together(calls)

    async def change(self, receipts: Sequence[str], seconds: int) -> dict[str, str]:
        """Set what is left of messages' visibility timeout. Answers codes of refusal by receipt."""
        self._depth = Depth(), 0.0
        codes: dict[str, str] = {}
        if seconds:
            receipts = [receipt for receipt in receipts if receipt not in self._lent]

        async def change(lane: int, handles: list[str]) -> None:
            async def step(left: list[str]) -> list[str]:
                entries: list[Any] = [
                    {"Id": str(i), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                    for i, handle in enumerate(left)
                ]
                answer = await self._aws.ask(
                    self._aws.sqs.change_message_visibility_batch(QueueUrl=self._urls[lane], Entries=entries)
                )
                again = []
                for failed in answer.get("Failed", []):
                    handle = left[int(failed["Id"])]
                    if _final(failed["Code"], failed["SenderFault"]):
                        codes[f"{lane}:{handle}"] = failed["Code"]
                    else:
                        again.append(handle)
                return again

            await until_done(step, handles)

        await together([change(lane, batch) for lane, batch in self._batches(receipts)])
        return codes

    async def depth(self, fresh: float = 0.0) -> Depth:
        """Messages on all lanes, as AWS said at most `fresh` seconds ago if nothing was done from here since. AWS
        itself is late by seconds, at times by a minute."""
        depth, seen_at = self._depth
        if depth.total and 0 <= self._clock() - seen_at < fresh:
            return depth
        names: list[Any] = ["", "NotVisible", "Delayed"]
        wanted: list[Any] = [f"ApproximateNumberOfMessages{name}" for name in names]
        answers = await together([self._attributes(lane, wanted) for lane in self.distinct])
        depth = Depth(*(sum(int(answer.get(name, 0)) for answer in answers) for name in wanted))
        self._depth = depth, self._clock()
        return depth

    async def _attributes(self, lane: int, wanted: list[Any]) -> dict[str, str]:
        call = self._aws.sqs.get_queue_attributes(QueueUrl=self._urls[lane], AttributeNames=wanted)
        return dict((await self._aws.ask(call, "Attributes"))["Attributes"])  # type: ignore[arg-type]

    def _batches(self, receipts: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        lanes: dict[int, list[str]] = defaultdict(list)
        for receipt in dict.fromkeys(receipts):
            lane, _, handle = receipt.partition(":")
            lanes[int(lane)].append(handle)
        for number, handles in lanes.items():
            yield from ((number, batch) for batch in chunks(handles, BATCH))


async def _find(aws: Aws, name: str) -> str:
    try:
        return (await aws.ask(aws.sqs.get_queue_url(QueueName=name), "QueueUrl"))["QueueUrl"]
    except Refused as error:
        if "NonExistentQueue" in error.code or "QueueDoesNotExist" in error.code:
            raise StateMissing(f"there is no queue {name!r} in this AWS account and region") from None
        raise


def _final(code: str, sender_fault: bool) -> bool:
    """Whether repeating cannot help."""
    return code in GONE or code in NOT_IN_FLIGHT or (sender_fault and code not in THROTTLED)


def packed(messages: list[Outgoing]) -> Iterator[list[Outgoing]]:
    """Cut into batches by count and by bytes; order is kept."""
    batch: list[Outgoing] = []
    size = 0
    for message in messages:
        if batch and (len(batch) == BATCH or size + message.size > REQUEST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += message.size
    if batch:
        yield batch
