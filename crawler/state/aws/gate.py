"""Host gates: an item a gate in the control table, moved by compare-and-set.

An item holds the start of the last turn taken, the gate's own interval and the time until which it is held. Several
turns are taken by one write. Whoever loses a race is told the item as it now is, and tries again on that.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from crawler.errors import StateUnavailable
from crawler.state.aws.client import Aws, Refused
from crawler.state.aws.records import Item, micros, n, number, s

HORIZON = 3.0
"""Seconds ahead for which a claim takes turns. Pages whose turn is farther go back to the queue; so do all while a gate
is held."""

FRESH = 1.0
"""Seconds for which a gate that was read is obeyed without reading it again, where no turn need be taken."""

KEPT = 7 * 24 * 3600
"""Seconds after which a gate nobody used may be removed."""

REMEMBERED = 50_000
"""Gates in memory."""

RACES = 50
"""Lost races after which a caller gives up for now."""


class Gate(msgspec.Struct, frozen=True, gc=False):
    """A gate as last seen, in microseconds; `seen_at` is the reader's clock. All zero: no item yet."""

    last: int = 0
    interval: int = 0
    held: int = 0
    seen_at: float = 0.0

    def opens(self, step: int, now: int) -> int:
        """Start of the next turn for a caller that keeps `step` between turns."""
        return max(now, self.held, self.last + step if self.last and step else 0)


class Gates:
    """All gates of the state, with a bounded memory of those seen. Times in arguments and answers are Unix seconds."""

    def __init__(self, aws: Aws, table: str, clock: Callable[[], float]) -> None:
        self._aws, self.table, self._clock = aws, table, clock
        self._seen: OrderedDict[str, Gate] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def stale(self, gate: str) -> bool:
        """Whether the gate should be read before it is judged."""
        seen = self._seen.get(gate)
        return seen is None or not 0 <= self._clock() - seen.seen_at < FRESH

    def note(self, gate: str, item: Item | None) -> Gate:
        """Remember a gate as read; None for one without an item."""
        item = item or {}
        seen = Gate(number(item, "last"), number(item, "interval"), number(item, "held"), self._clock())
        return self._remember(gate, seen)

    async def take(self, gate: str, turns: int, interval: float, *, anyway: bool = False) -> list[float]:
        """Take at most `turns` turns that start within the horizon (`anyway`: all); answers their starts, in order.

        `interval` is the crawl's; the gate's own counts where it is larger. Where both are 0 no turn is needed: the
        answer is when the gate opens, for all, and nothing is written.
        """
        # Tasks of one process wait for each other: they would only make each other lose.
        async with self._locks.setdefault(gate, asyncio.Lock()):
            return await self._take(gate, turns, interval, anyway)

    async def _take(self, gate: str, turns: int, interval: float, anyway: bool) -> list[float]:
        seen = self._seen.get(gate) or self.note(gate, None)
        for race in range(RACES):
            now = micros(self._clock())
            step = max(micros(interval), seen.interval)
            first = seen.opens(step, now)
            latest = now + micros(HORIZON)
            if not anyway and (first > latest or seen.held > now):
                return []
            if not step:
                return [first / 1_000_000] * turns
            fit = turns if anyway else min(turns, (latest - first) // step + 1)
            last = first + (fit - 1) * step
            try:
                await self._move(gate, seen, last)
            except Refused as error:
                if error.code != "ConditionalCheckFailedException":
                    raise
                seen = self.note(gate, error.item)
                await asyncio.sleep(random.uniform(0, 0.01) * race)  # noqa: S311
                continue
            self._remember(gate, Gate(last, seen.interval, seen.held, self._clock()))
            return [(first + turn * step) / 1_000_000 for turn in range(fit)]
        raise StateUnavailable(f"too many workers want turns at the gate of {gate}")

    def outlook(self, gate: str, interval: float) -> tuple[float, float]:
        """From when on a claim may take the gate's next turn, and the seconds between its turns, as known here."""
        seen = self._seen.get(gate, Gate())
        step = max(micros(interval), seen.interval)
        opens = seen.opens(step, micros(self._clock())) / 1_000_000
        return max(opens - HORIZON / 2, seen.held / 1_000_000), step / 1_000_000

    async def turn(self, gate: str, interval: float) -> float:
        """Take one turn, however far away; answers its start."""
        if not interval and self.stale(gate):
            items = await self._aws.items([(self.table, key(gate))])
            self.note(gate, items.get((self.table, key(gate))))
        return (await self.take(gate, 1, interval, anyway=True))[0]

    async def hold(self, gate: str, until: float, interval: float | None) -> None:
        """Raise `held` (never lowers it) and set the gate's own interval. Both may be repeated."""
        if interval is not None:
            await self._update(gate, "SET #i = :i", {":i": n(micros(interval))}, {"#i": "interval"})
        if until > 0:
            try:
                await self._update(
                    gate,
                    "SET held = :u",
                    {":u": n(micros(until))},
                    {},
                    condition="attribute_not_exists(held) OR held < :u",
                )
            except Refused as error:
                if error.code != "ConditionalCheckFailedException":
                    raise

    async def _move(self, gate: str, seen: Gate, last: int) -> None:
        """Set `last` if the gate is still as `seen`. If the process dies here, the turns are void and nobody waits."""
        names = {"last": "#l", "interval": "#i", "held": "#h"}
        conditions, values = [], {":new": n(last)}
        for name, alias in names.items():
            value = getattr(seen, name)
            absent = f"attribute_not_exists({alias})"
            conditions.append(f"({absent} OR {alias} = :{name})" if not value else f"{alias} = :{name}")
            values[f":{name}"] = n(value)
        await self._update(
            gate,
            "SET #l = :new",
            values,
            {alias: name for name, alias in names.items()},
            condition=" AND ".join(conditions),
        )

    async def _update(
        self, gate: str, change: str, values: dict[str, Item], names: dict[str, str], condition: str = ""
    ) -> None:
        now = self._clock()
        more: dict[str, Any] = {"ExpressionAttributeNames": {**names, "#t": "ttl"}}
        if condition:
            more |= {"ConditionExpression": condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        call = self._aws.dynamodb.update_item(
            TableName=self.table,
            Key={"pk": s(key(gate))},
            UpdateExpression=f"{change}, #t = :ttl",
            ExpressionAttributeValues={**values, ":ttl": n(int(now) + KEPT)},
            ReturnValues="ALL_NEW",
            **more,
        )
        self.note(gate, (await self._aws.ask(call, "Attributes"))["Attributes"])

    def _remember(self, gate: str, seen: Gate) -> Gate:
        self._seen[gate] = seen
        self._seen.move_to_end(gate)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return seen


def key(gate: str) -> str:
    return f"#gate#{gate}"
