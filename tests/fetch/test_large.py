"""Large bodies: few in hand at a time, and what waits for its place is not late."""

from __future__ import annotations

import asyncio

from crawler import large
from crawler.fetch import Fetcher
from tests.servers import Peer, reply, serve

BODY = b"x" * (3 * large.LARGE)


async def site(peer: Peer) -> None:
    while head := await peer.request():
        await peer.send(reply(b"small" if b"/small" in head else BODY))


async def test_only_so_many_large_bodies_are_in_hand_and_small_ones_pass_by() -> None:
    async with serve(site) as server, Fetcher("crawler", allow_private=True) as fetcher:
        rooms = [fetcher.room() for _ in range(large.AT_ONCE)]
        for room in rooms:
            assert len((await fetcher.get(server.url("/large"), room=room)).body) == len(BODY)
        with fetcher.room() as room:
            waiting = asyncio.create_task(fetcher.get(server.url("/large"), room=room))
            async with asyncio.timeout(20):
                while len(server.requests) <= large.AT_ONCE:  # noqa: ASYNC110 - a request sets no event here
                    await asyncio.sleep(0.01)
                with fetcher.room() as other:
                    assert (await fetcher.get(server.url("/small"), room=other)).body == b"small"
                assert not waiting.done()
                with rooms[0]:
                    pass
                answer = await waiting
        assert (len(answer.body), answer.truncated) == (len(BODY), "")


async def test_waiting_for_a_place_is_no_time_of_the_server_s() -> None:
    async with serve(site) as server, Fetcher("crawler", allow_private=True) as fetcher:
        rooms = [fetcher.room() for _ in range(large.AT_ONCE)]
        for room in rooms:
            await room.take()
        with fetcher.room() as room:
            waiting = asyncio.create_task(fetcher.get(server.url("/large"), deadline=2.0, room=room))
            await asyncio.wait({waiting}, timeout=2.5)
            assert not waiting.done()
            with rooms[0]:
                pass
            answer = await waiting
        assert (len(answer.body), answer.truncated) == (len(BODY), "")
        assert answer.elapsed < 2.0
