"""Host gates: an item a gate in the control table, moved by compare-and-set.

Several turns are taken by one write. Whoever loses a race is told the item as it now is, and tries again on that.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from crawler.errors import StateUnavailable
from crawler.model import ERROR_LENGTH, Health, Lease, Why
from crawler.state.aws.client import Aws, Refused
from crawler.state.aws.pacing import FLIGHT, Gate, Pace
from crawler.state.aws.pacing import gate as as_told
from crawler.state.aws.records import Item, clipped, micros, n, s

HORIZON = 12.0
"""Seconds ahead for which a claim takes turns, a tenth of the lease meant for workers; less where the queues' is
shorter. None is taken before the first is half as far away, so that pages which come one by one share a write. Pages
whose turn is farther wait; so do all while a gate is held."""

SHORTEST_HORIZON = 3.0
"""Seconds, however short the lease."""

FRESH = 1.0
"""Seconds for which a gate that was read is obeyed without reading it again, where no turn need be taken."""

RECENT = 0.1
"""The same for a gate at which turns are taken: a turn asked of one that others have moved is a write that is refused,
and costs five times what a read does."""

SPREAD, LATER = 0.4, 0.2
"""Workers that wait for one gate come apart by these shares: of half the horizon, or of a step where they wait for
room, when a quarter of it is left. All at once, all but one would lose."""

LOOKS = 12
"""Looks of a worker in the time of a horizon, each at all gates that it waits for and that are near then."""

TOGETHER = 0.8
"""Seconds ahead, less than FRESH, for whose turns one look is enough."""

KEPT = 7 * 24 * 3600
"""Seconds after which a gate nobody used may be removed."""

REMEMBERED = 50_000
"""Gates in memory."""

RACES = 50
"""Lost races after which a caller gives up for now."""

TIDIED = 50
"""Flights of requests that never said they had ended, removed by one write."""


class Gates:
    """All gates of the state, with a bounded memory of those seen. Times in arguments and answers are Unix seconds."""

    def __init__(self, aws: Aws, table: str, lease: int, clock: Callable[[], float]) -> None:
        self._aws, self.table, self._clock = aws, table, clock
        self._horizon = min(HORIZON, max(SHORTEST_HORIZON, lease / 10))
        self._phase = random.random()  # noqa: S311 - of the looks, so that other workers' are at other times
        self._seen: OrderedDict[str, Gate] = OrderedDict()
        self._ahead: list[tuple[float, str]] = []  # a heap: turns taken here that are to be looked at again
        self._asked: set[str] = set()
        self._looking = asyncio.Lock()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def stale(self, gate: str) -> bool:
        """Whether the gate should be read before it is judged, and turns are taken there."""
        return not self._fresh(gate, RECENT if self.seen(gate).last else FRESH)

    def _fresh(self, gate: str, seconds: float) -> bool:
        seen = self._seen.get(gate)
        return seen is not None and 0 <= self._clock() - seen.seen_at < seconds

    def note(self, gate: str, item: Item | None) -> Gate:
        """Remember a gate as read; None for one without an item. What was written here meanwhile is not forgotten for
        a read that began before it."""
        told, seen = as_told(item, self._clock()), self.seen(gate)
        older = told.revision < seen.revision and self._fresh(gate, FRESH)
        return seen if older else self._remember(gate, told)

    def seen(self, gate: str) -> Gate:
        """A gate as last seen, however long ago."""
        return self._seen.get(gate) or Gate()

    def down(self, gate: str) -> bool:
        """Whether its host was given up, as far as is known here."""
        return self.seen(gate).down(micros(self._clock()))

    def told(self, gate: str, pace: Pace) -> tuple[float, Health]:
        """What a lease tells: seconds between the gate's turns, and its host's health."""
        seen = self.seen(gate)
        return seen.step(pace) / 1_000_000, seen.health

    async def read(self, gates: Sequence[str]) -> list[Gate]:
        """Gates as they are now: a read unit each."""
        items = await self._aws.items([(self.table, key(gate)) for gate in gates])
        return [self.note(gate, items.get((self.table, key(gate)))) for gate in gates]

    async def take(
        self, gate: str, turns: int, pace: Pace, *, anyway: bool = False, by: float = math.inf
    ) -> list[float]:
        """Take at most `turns` turns that start within the horizon and at once or until `by`, and for whose requests
        there is room (`anyway`: all); answers their starts, in order.

        `pace` is the crawl's. Where neither it nor the gate has an interval no turn is needed: the answer is when the
        gate opens, for all, and nothing is written.
        """
        # Tasks of one process wait for each other: they would only make each other lose.
        async with self._locks.setdefault(gate, asyncio.Lock()):
            return await self._take(gate, turns, pace, anyway, by)

    async def _take(self, gate: str, turns: int, pace: Pace, anyway: bool, by: float) -> list[float]:
        seen = self.seen(gate)
        for race in range(RACES):
            now = micros(self._clock())
            step = seen.step(pace)
            first = max(now, seen.next(step))
            latest = now + micros(max(0.0, min(self._horizon, by - now / 1_000_000)))
            near = min(latest, now + micros(self._horizon / 2))
            fit = turns if anyway else min(turns, seen.room(pace, now))
            if not anyway and (not fit or first > near or seen.held > now or seen.down(now)):
                return []
            if not step:
                return [first / 1_000_000] * turns
            fit = fit if anyway else min(fit, (latest - first) // step + 1)
            try:
                await self._move(gate, seen, first + (fit - 1) * step, now)
            except Refused as error:
                if error.code != "ConditionalCheckFailedException":
                    raise
                seen = self.note(gate, error.item)
                await asyncio.sleep(random.uniform(0, 0.01) * race)  # noqa: S311
                continue
            starts = [(first + turn * step) / 1_000_000 for turn in range(fit)]
            if not anyway:
                self._expect(gate, starts)
            return starts
        raise StateUnavailable(f"too many workers want turns at the gate of {gate}")

    def _expect(self, gate: str, starts: Sequence[float]) -> None:
        """Remember turns that others may still take away, and forget those that are past."""
        now = self._clock()
        while self._ahead and self._ahead[0][0] <= now:
            heapq.heappop(self._ahead)
        for start in starts:
            if start > now + FRESH:
                heapq.heappush(self._ahead, (start, gate))

    async def _move(self, gate: str, seen: Gate, last: int, now: int) -> None:
        """Set `last` if the gate is still as `seen`. If the process dies here, the turns are void and nobody waits."""
        unchanged = "#revision = :seen" if seen.revision else "attribute_not_exists(#revision)"
        over = [FLIGHT + flight for flight in seen.expired(now)[:TIDIED]]
        compared = {":seen": n(seen.revision)} if seen.revision else {}
        await self._write(gate, {"last": n(last)}, over, condition=unchanged, compared=compared)

    def outlook(self, gate: str, pace: Pace) -> tuple[float, float]:
        """From when on a claim may take the gate's next turn, and the seconds between its turns, as known here."""
        seen, now = self.seen(gate), micros(self._clock())
        step = seen.step(pace)
        # The same for all pages that wait for this turn here, so that they take theirs together.
        room, chance = seen.room_at(pace, now), hash((self._phase, gate, seen.last)) % 1024 / 1024
        if room > now:
            room += int(step * LATER * chance)
        near = seen.next(step) - micros(self._horizon / 2 * (1 - SPREAD * chance))
        opens = max(now, room, seen.held, self._next_look(near) if near > now else now)
        return opens / 1_000_000, step / 1_000_000

    def _next_look(self, at: int) -> int:
        """When this worker looks, from then on."""
        between = micros(self._horizon / LOOKS)
        phase = int(self._phase * between)
        return at + (phase - at) % between

    async def turn(self, gate: str, pace: Pace) -> float:
        """Take one turn, however far away and whatever is in flight; answers its start."""
        if not pace.interval:
            await self._look(gate)
        return (await self.take(gate, 1, pace, anyway=True))[0]

    async def upheld(self, lease: Lease) -> float:
        """When the request of a lease's turn may start: later than its turn if the gate was raised since, and now if
        its host was given up since, which takes the turn away too.

        No request where the gate was seen within the last second, else a read unit. Who looks does so for all who ask
        meanwhile and for the turns that come next: a host costs a process at most a read a second, however many its
        turns, and all hosts together about a request a second.
        """
        await self._look(lease.gate)
        seen, now = self.seen(lease.gate), self._clock()
        if seen.down(micros(now)):
            return max(now, lease.start_at)
        return max(lease.start_at, seen.held / 1_000_000)

    async def _look(self, gate: str) -> None:
        """Read a gate that was not seen within the last second."""
        if self._fresh(gate, FRESH):
            return
        self._asked.add(gate)
        async with self._looking:
            if not self._fresh(gate, FRESH):
                await self._read_with(gate)

    async def _read_with(self, gate: str) -> None:
        """Read a gate, those that others ask about, and those whose turns here come so soon that no other look will be
        needed for them."""
        gates, self._asked = {gate, *self._asked}, set()
        until = self._clock() + TOGETHER
        while self._ahead and self._ahead[0][0] <= until:
            start, other = heapq.heappop(self._ahead)
            if start - self.seen(other).seen_at > TOGETHER:
                gates.add(other)
        await self.read(list(gates))

    async def hold(self, gate: str, until: float, why: Why, interval: float | None) -> None:
        """Raise `held` (never lowers it) and set the gate's own interval. Both may be repeated. One write; two where
        the gate was held longer already, and its interval is set all the same."""
        setting = {} if interval is None else {"interval": n(micros(interval))}
        if until > 0:
            try:
                await self._write(
                    gate,
                    {**setting, "held": n(micros(until)), "why": s(why)},
                    condition="attribute_not_exists(held) OR held < :until",
                    compared={":until": n(micros(until))},
                )
            except Refused as error:
                if error.code != "ConditionalCheckFailedException":
                    raise
                self.note(gate, error.item)
            else:
                return
        if setting:
            await self._write(gate, setting)

    async def diagnose(self, gate: str, health: Health) -> None:
        """Replace what is known of its host's health."""
        fitting = msgspec.structs.replace(health, error=clipped(health.error, ERROR_LENGTH))
        await self._write(gate, {"health": {"B": msgspec.msgpack.encode(fitting)}})

    async def occupy(self, gate: str, flight: str, until: float) -> None:
        """Count a request among those in flight until then; 0: no longer."""
        name = FLIGHT + flight.encode("utf-8", "replace").decode()
        if until > 0:
            await self._write(gate, {name: n(micros(until))})
        else:
            await self._write(gate, {}, [name])

    async def _write(
        self,
        gate: str,
        setting: dict[str, Item],
        removing: Sequence[str] = (),
        *,
        condition: str = "",
        compared: dict[str, Item] | None = None,
    ) -> None:
        """Change an item where `condition` holds, and remember it as it is then. Raises Refused where it does not."""
        setting = {**setting, "ttl": n(int(self._clock()) + KEPT)}
        change = "SET " + ", ".join(f"#s{i} = :s{i}" for i, _ in enumerate(setting))
        names = {f"#s{i}": name for i, name in enumerate(setting)} | {f"#r{i}": name for i, name in enumerate(removing)}
        names["#revision"] = "revision"
        if removing:
            change += " REMOVE " + ", ".join(f"#r{i}" for i, _ in enumerate(removing))
        more: dict[str, Any] = {}
        if condition:
            more = {"ConditionExpression": condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        values = {f":s{i}": value for i, value in enumerate(setting.values())} | (compared or {})
        call = self._aws.dynamodb.update_item(
            TableName=self.table,
            Key={"pk": s(key(gate))},
            UpdateExpression=f"{change} ADD #revision :one",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={**values, ":one": n(1)},
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
