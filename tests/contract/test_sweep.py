"""The sweep: it finds nothing, because nothing is ever recorded without being queued."""

from __future__ import annotations

import random

import pytest

from crawler.errors import UsageError
from crawler.model import Ending, Lease, Phase, Verdict, done, retry
from tests.contract.backends import Backend
from tests.contract.words import CRAWL, lines, new_crawl, page, pages, parent, take


async def test_what_waits_is_not_astray(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, [*pages(3), page("/no", skip="trap"), *pages(3, "held.example")])
    await state.hold("held.example", until=backend.now() + 600)
    (held,) = await take(state, 1)
    assert await state.sweep(CRAWL) == 0
    await state.settle([(held, retry(backend.now() + 600, "dns", "no such host"))])
    assert await state.sweep(CRAWL) == 0
    assert len(await lines(state, CRAWL, Phase.PENDING)) == 6


@pytest.mark.parametrize("seed", range(3))
async def test_after_any_history_the_sweep_finds_nothing_and_doubles_nothing(backend: Backend, seed: int) -> None:
    dice = random.Random(seed)
    state = await backend.open()
    await new_crawl(state, backend, lease=5.0)
    held: list[Lease] = []
    for _ in range(30):
        match dice.randrange(6):
            case 0 | 1:
                source = parent(dice.choice(held)) if held and dice.random() < 0.7 else None
                await state.add(CRAWL, [page(f"/{dice.randrange(40)}", parent=source) for _ in range(4)])
            case 2:
                held += await state.claim(dice.randrange(1, 8))
            case 3 | 4 if held:
                lease = held.pop(dice.randrange(len(held)))
                at = backend.now() + dice.choice([0, 2])
                await state.settle([(lease, Verdict(dice.choice(list(Ending)), at=at, reason="dns"))])
            case _:
                dead_letters = await lines(state, CRAWL, Phase.DEAD)
                await state.revive(CRAWL, [(digest, 0.0) for digest in dead_letters])
    assert await state.sweep(CRAWL) == 0
    known = len(await lines(state))
    finished: list[bytes] = [line.digest for line in (await lines(state)).values() if is_over(line.phase)]
    while not await state.complete(CRAWL):
        await backend.advance(1)
        leases = await state.claim(20)
        answers = await state.settle([(lease, done(1)) for lease in leases])
        finished += [lease.digest for lease, answer in zip(leases, answers, strict=True) if answer.value == "settled"]
        assert await state.sweep(CRAWL) == 0
    assert len(finished) == len(set(finished)) == known


def is_over(phase: Phase) -> bool:
    return phase not in (Phase.PENDING, Phase.LEASED)


async def test_sweeping_an_unknown_crawl_is_a_usage_error(backend: Backend) -> None:
    state = await backend.open()
    with pytest.raises(UsageError):
        await state.sweep("nothing")
