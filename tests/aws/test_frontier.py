"""From add to claim to settle, on the emulator."""

from __future__ import annotations

import itertools
import time

from crawler.model import Added, Health, Phase, Settled, dead, defer, done, retry, skipped
from crawler.state.aws.gate import HORIZON
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages


async def test_a_page_is_added_claimed_and_settled_once(state: AwsState, place: Place) -> None:
    seed = page("https://site.example/")
    assert await state.add("c", [seed]) == [Added.NEW]
    (lease,) = await state.claim(10)
    assert (lease.url, lease.digest, lease.depth, lease.attempt, lease.receives) == (seed.url, seed.digest, 0, 1, 1)
    assert await state.settle([(lease, done(7))]) == [Settled.SETTLED]
    assert await state.settle([(lease, done(7))]) == [Settled.LOST]
    assert place.depth() == (0, 0, 0)
    assert await state.complete("c")
    counts = await state.counts("c")
    assert (counts.discovered, counts.done, counts.bytes, counts.hosts, counts.exact) == (1, 1, 7, 1, True)
    assert [entry.phase async for entry in state.ledger("c")] == [Phase.DONE]


async def test_many_pages_go_round(state: AwsState) -> None:
    seed = page("https://site.example/")
    await state.add("c", [seed])
    (root,) = await state.claim(10)
    children = pages(230, seed)
    assert await state.add("c", children) == [Added.NEW] * 230
    assert await state.settle([(root, done())]) == [Settled.SETTLED]
    seen: list[bytes] = []
    while leases := await state.claim(100):
        seen += [lease.digest for lease in leases]
        assert set(await state.settle([(lease, done(1)) for lease in leases])) == {Settled.SETTLED}
    assert sorted(seen) == sorted(child.digest for child in children)
    assert (await state.counts("c")).done == 231
    assert await state.complete("c")


async def test_every_ending(state: AwsState) -> None:
    await state.add("c", pages(4))
    one, two, three, four = sorted(await state.claim(10), key=lambda lease: lease.url)
    now = time.time()
    endings = [(one, skipped("robots")), (two, dead("dns", "no such host")), (three, retry(now, "reset", "gone"))]
    assert await state.settle([*endings, (four, defer(now))]) == [Settled.SETTLED] * 4
    again = {lease.url: lease for lease in await state.claim(10)}
    assert {url: (lease.attempt, lease.receives) for url, lease in again.items()} == {
        three.url: (2, 1),
        four.url: (1, 1),
    }
    assert not await state.complete("c")
    assert await state.settle([(lease, done()) for lease in again.values()]) == [Settled.SETTLED] * 2
    assert await state.complete("c")
    ledger = {entry.url: (entry.phase, entry.reason) async for entry in state.ledger("c")}
    assert ledger[one.url] == (Phase.SKIPPED, "robots")
    assert ledger[two.url] == (Phase.DEAD, "dns")


async def test_rate_paces_a_gate_over_two_workers(opening: Open) -> None:
    one, two = await opening("one", rate=2.0), await opening("two")
    await one.diagnose("site.example", Health(prompt=True))
    await one.add("c", pages(30))
    leases = [*await one.claim(10), *await two.claim(10), *await one.claim(10)]
    starts = sorted(lease.start_at for lease in leases)
    assert all(later - earlier >= 0.499 for earlier, later in itertools.pairwise(starts))
    assert len(starts) >= 6
    assert starts[-1] <= time.time() + HORIZON
