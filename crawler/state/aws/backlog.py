"""The backlog of a host: pages that have no turn for long, packed into items of the control table. What is parked of a
paused crawl lies in backlogs, too.

A message can be delayed for a quarter of an hour at most, so a page that waited a day on a queue would be sent again
a hundred times. Only the pages of the next minutes are on a queue; those behind them lie here.

    line     an item a crawl's run and gate: until when its turns are promised to pages on the queue (`booked`), the
             numbers of its first chunk (`head`) and of the next to be written (`tail`), and its `feeder`
    chunk    an item some pages

A chunk is written where there is none of its number. The tail then moves past it, and never past a number without
chunk. The head moves once a chunk's pages are on the queue, and only then the chunk is emptied, for the table to remove
it some day. So none is missing between head and tail, whoever dies when; what is written twice is sent twice, which is
harmless.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from crawler.errors import StateUnavailable
from crawler.state.aws.chunk import Entry, pack, unpack
from crawler.state.aws.client import Aws, Refused
from crawler.state.aws.records import Item, n, number, s, text

FRESH = 5.0
"""Seconds for which a line is used as last seen where it is only a hint."""

REMEMBERED = 50_000
"""Lines in memory."""

KEPT = 24 * 3600
"""Seconds for which a chunk stays once it is empty: nobody who saw it as the next to be written is asleep so long."""

RACES = 50
"""Lost races after which a caller gives up for now."""

PREFIX = "#line#"


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line as last seen at `seen_at` (Unix seconds). Other times are whole microseconds. All zero: no item yet.

    `feeder` is the token of the message that moves the line on, "" when there is none; it is `due` then.
    """

    booked: int = 0
    head: int = 0
    tail: int = 0
    feeder: str = ""
    due: int = 0
    seen_at: float = 0.0

    @property
    def empty(self) -> bool:
        return self.head == self.tail


class Found(msgspec.Struct, gc=False):
    """What a look at the whole table finds of a line: pages by number of their chunk."""

    line: Line = Line()
    pages: dict[int, int] = {}


class Backlog:
    """All lines of the state, with a bounded memory of those seen. A line's name is its key."""

    def __init__(self, aws: Aws, table: str, clock: Callable[[], float]) -> None:
        self._aws, self._table, self._clock = aws, table, clock
        self._seen: OrderedDict[str, Line] = OrderedDict()
        self._insert = f"INSERT INTO \"{table}\" VALUE {{'pk': ?, 'pages': ?, 'count': ?}}"
        # Values are parameters; the table's name comes from the state's own address.
        self._empty = f'UPDATE "{table}" SET "pages"=? SET "count"=? SET "ttl"=? WHERE "pk"=?'  # noqa: S608

    def seen(self, name: str) -> Line:
        """A line as last seen, however long ago."""
        return self._seen.get(name) or Line()

    async def look(self, name: str) -> Line:
        """A line as it was a moment ago."""
        return await self.read(name) if self.stale(name) else self.seen(name)

    def stale(self, name: str) -> bool:
        """Whether a line should be read again before it is a hint."""
        return not 0 <= self._clock() - self.seen(name).seen_at < FRESH

    async def refresh(self, names: Sequence[str]) -> None:
        """Read lines as they are now, in one request."""
        items = await self._aws.items([(self._table, name) for name in names])
        for name in names:
            self._note(name, items.get((self._table, name)))

    async def read(self, name: str) -> Line:
        """A line as it is now: a read unit."""
        return self._note(name, (await self._aws.items([(self._table, name)])).get((self._table, name)))

    async def book(self, name: str, opens: int, step: int, turns: int, latest: int, *, behind: bool) -> tuple[int, int]:
        """Promise the next turns of a line: the start of the first, and how many were had, `step` apart.

        None before `opens`, none after `latest`, and none at all where pages lie in the backlog if this one is to come
        `behind` them. If the process dies here, nobody uses these turns.
        """
        line = self.seen(name)
        for _ in range(RACES):
            start = max(line.booked, opens)
            if start > latest or (behind and not line.empty):
                return start, 0
            had = min(turns, (latest - start) // step + 1) if step else turns
            condition = "booked = :was" if line.booked else "attribute_not_exists(booked)"
            if behind:
                condition += " AND (attribute_not_exists(tail) OR head = tail)"
            compared = {":was": n(line.booked)} if line.booked else {}
            done, line = await self._write(name, {"booked": n(start + had * step)}, condition, compared)
            if done:
                return start, had
        raise StateUnavailable(f"too many workers want turns of {name}")

    async def append(self, name: str, chunks: Sequence[Sequence[Entry]]) -> Line:
        """Put chunks of pages behind the others; answers the line with them.

        If the process dies here, some are behind the tail: whoever writes next moves it past them, or a sweep does.
        """
        left = list(chunks)
        line = await self.look(name)
        for _ in range(RACES):
            first = line.tail
            numbers = range(first, first + len(left))
            inserted = await self._put(name, numbers, left)
            # All of these numbers have a chunk now, ours or another's.
            line = await self.cover(name, numbers.stop)
            # The head may have been there already where the tail had been seen long ago: nobody will look there again.
            stray = [number for number, mine in zip(numbers, inserted, strict=True) if mine and number < line.head]
            await self.empty(name, stray)
            ours = zip(numbers, inserted, left, strict=True)
            left = [chunk for number, mine, chunk in ours if not mine or number < line.head]
            if not left:
                return line
        raise StateUnavailable(f"too many workers write to {name}")

    async def _put(self, name: str, numbers: Sequence[int], chunks: Sequence[Sequence[Entry]]) -> list[bool]:
        """Write chunks; False for one whose number was taken."""
        statements = [
            {"Statement": self._insert, "Parameters": [s(_chunk(name, at)), {"B": pack(pages)}, n(len(pages))]}
            for at, pages in zip(numbers, chunks, strict=True)
        ]
        return [not error for error in await self._aws.statements(statements)]

    async def chunks(self, name: str, first: int, most: int) -> list[list[Entry]]:
        """The pages of at most so many chunks from a number on, up to the first number without one."""
        keys = [(self._table, _chunk(name, at)) for at in range(first, first + most)]
        items = await self._aws.items(keys)
        found: list[list[Entry]] = []
        for key in keys:
            if key not in items:
                break
            found.append(unpack(items[key]["pages"]["B"]))
        return found

    async def appoint(self, name: str, was: str, feeder: str, due: int) -> bool:
        """Give a line a feeder where it has had `was` ("" for none); False: it has another by now."""
        condition = "feeder = :was" if was else "attribute_not_exists(feeder) OR feeder = :was"
        done, _ = await self._write(name, {"feeder": s(feeder), "due": n(due)}, condition, {":was": s(was)})
        return done

    async def cover(self, name: str, stop: int) -> Line:
        """Move the tail past chunks that are there, if nobody did."""
        condition = "attribute_not_exists(tail) OR tail < :stop"
        _, line = await self._write(name, {"tail": n(stop)}, condition, {":stop": n(stop)})
        return line

    async def move(self, name: str, was: Line, line: Line) -> bool:
        """Note how far the feeder of `was` has come, and who is the next; False: the line has another by now, or, where
        there is to be none, it has new chunks."""
        condition, compared = "feeder = :was", {":was": s(was.feeder)}
        if not line.feeder:
            condition += " AND tail = :seen" if line.tail else " AND (attribute_not_exists(tail) OR tail = :seen)"
            compared[":seen"] = n(line.tail)
        changes = {"head": n(line.head), "booked": n(line.booked), "feeder": s(line.feeder), "due": n(line.due)}
        done, _ = await self._write(name, changes, condition, compared)
        return done

    async def empty(self, name: str, numbers: Sequence[int]) -> None:
        """Empty chunks. A worker needs no right to delete for it, and what is left is removed for nothing."""
        removed = n(int(self._clock()) + KEPT)
        statements = [
            {"Statement": self._empty, "Parameters": [{"B": b""}, n(0), removed, s(_chunk(name, at))]} for at in numbers
        ]
        await self._aws.statements(statements)

    async def drop(self, crawl: str, run: str) -> None:
        """Delete the lines of a crawl's run, and of those before it. Reads the whole control table."""
        await self._aws.delete_between(self._table, f"{PREFIX}{crawl}#", f"{PREFIX}{crawl}#{run}$")

    async def lines(self, crawl: str, run: str) -> dict[str, Found]:
        """Every line of a crawl's run by name. Reads the whole control table."""
        found: dict[str, Found] = defaultdict(Found)
        names = {"#count": "count"}
        columns = "pk, booked, head, tail, feeder, due, #count"
        own = {":own": s(f"{PREFIX}{crawl}#{run}#")}
        more: dict[str, Any] = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": own}
        scan = self._aws.scan(
            self._table, FilterExpression="begins_with(pk, :own)", ProjectionExpression=columns, **more
        )
        async with aclosing(scan) as pages:
            async for items in pages:
                for item in items:
                    name, _, at = text(item, "pk").partition(NUMBER)
                    if at and not number(item, "count"):
                        continue
                    if at:
                        found[name].pages = {**found[name].pages, int(at): number(item, "count")}
                    else:
                        found[name].line = self._note(name, item)
        return found

    async def _write(
        self, name: str, changes: dict[str, Item], condition: str, compared: dict[str, Item]
    ) -> tuple[bool, Line]:
        """Change a line where `condition` holds: whether it did, and the line as it is then."""
        try:
            answer = await self._aws.ask(
                self._aws.dynamodb.update_item(
                    TableName=self._table,
                    Key={"pk": s(name)},
                    UpdateExpression="SET " + ", ".join(f"{attribute} = :new_{attribute}" for attribute in changes),
                    ConditionExpression=condition,
                    ExpressionAttributeValues={
                        **{f":new_{attribute}": value for attribute, value in changes.items()},
                        **compared,
                    },
                    ReturnValues="ALL_NEW",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                ),
                "Attributes",
            )
        except Refused as error:
            if error.code != "ConditionalCheckFailedException":
                raise
            return False, self._note(name, error.item)
        return True, self._note(name, answer["Attributes"])

    def _note(self, name: str, item: Item | None) -> Line:
        item = item or {}
        counts = {attribute: number(item, attribute) for attribute in ("booked", "head", "tail", "due")}
        self._seen[name] = line = Line(**counts, feeder=text(item, "feeder"), seen_at=self._clock())
        self._seen.move_to_end(name)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return line


NUMBER = "#chunk#"


def name(crawl: str, run: str, gate: str) -> str:
    """Key of a line."""
    return f"{PREFIX}{crawl}#{run}#{gate}"


def _chunk(name: str, at: int) -> str:
    return f"{name}{NUMBER}{at}"
