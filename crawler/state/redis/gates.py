"""Gates as the scripts keep them: the health that leases tell, and what a crawl sees of a host."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from crawler.model import WELL, Health, HostState, Why
from crawler.state.redis.clock import Clock

_LANE = struct.Struct("<diii")
_GATE = struct.Struct("<dddddddBB")  # then the reason of the hold, whose length comes last here, and the health

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Health).decode


class _Gate(NamedTuple):
    """A gate as it is kept."""

    next_at: float = 0.0
    last_at: float = 0.0
    interval: float = 0.0
    held_until: float = 0.0
    busy_until: float = 0.0
    gap: float = 0.0
    down_until: float = 0.0
    prompt: bool = False
    held_why: str = ""
    health: bytes = b""

    @classmethod
    def of(cls, value: bytes) -> _Gate:
        if not value:  # nobody has taken a turn at it, nor said anything of it
            return cls()
        *fields, length = _GATE.unpack_from(value)
        health = _GATE.size + length
        return cls._make((*fields, value[_GATE.size : health].decode(), value[health:]))

    def why(self, now: float, interval: float) -> Why:
        """What makes it as slow as it is for a crawl with `interval` seconds between its own turns."""
        step = max(interval, self.interval, self.gap)
        if self.down_until > now:
            return Why.DOWN
        if self.held_until > max(now, self.last_at + step):
            return Why(self.held_why)
        if step == interval:
            return Why.DEFAULT
        return Why.CRAWL_DELAY if step == self.interval else _decode(self.health).why


def told(health: Health, clock: Clock) -> bytes:
    """A host's health as leases tell it, by the server's clock. A lone surrogate in its error has no UTF-8."""
    error = health.error.encode("utf-8", "replace").decode()
    return _encode(msgspec.structs.replace(health, error=error, down_until=clock.to_server(health.down_until)))


def health(told: bytes, clock: Clock) -> Health:
    """A host's health from what leases tell, by our clock."""
    found = _decode(told) if told else WELL
    if found.down_until:
        found = msgspec.structs.replace(found, down_until=clock.to_local(found.down_until))
    return found


def host_states(reply: Sequence[bytes], clock: Clock) -> Iterator[HostState]:
    """What `hosts.lua` answered behind the cursor."""
    now, interval = float(reply[0]), float(reply[1])
    clock.learn(now)
    for name, lane, value in zip(reply[2::3], reply[3::3], reply[4::3], strict=True):
        gate = _Gate.of(value)
        _, pending, leased, done = _LANE.unpack(lane)
        how = health(gate.health, clock)
        yield HostState(
            gate=name.decode("utf-8", "replace"),
            next_at=clock.to_local(gate.next_at),
            interval=max(interval, gate.interval, gate.gap),
            why=gate.why(now, interval),
            pending=pending,
            leased=leased,
            done=done,
            failures=how.failures,
            error=how.error,
        )
