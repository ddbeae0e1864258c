"""Batches, lengths and characters beyond what a request of the services below can hold."""

from __future__ import annotations

import pytest

from crawler.model import ERROR_LENGTH, Added, Phase, Settled, dead, done, retry, skipped
from tests.contract.backends import Backend
from tests.contract.words import CRAWL, lines, new_crawl, page, pages, parent, take, take_one

LONGEST = 8000
"""Characters of the longest URL that is crawled."""

HOST = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
"""Of 253 characters: none is longer."""

ODD = {
    "lone surrogate": "caf\udce9",
    "another one": "caf\ud800",
    "as it is replaced": "caf?",
    "control characters": "\x01\x08\x0b\x0c\x1b\x7f\x9f",
    "zero": "a\x00b",
    "lines": "one\r\ntwo\tthree",
    "no characters": "\ufffe\uffff\ufdd0",
    "beyond the basic plane": "\U0001f40d\U0010ffff",
    "marks of markup": '<a href="x">&amp;\'\\u0000</a>',
    "blanks": "  ",
}


@pytest.mark.parametrize("size", [0, 1, 10, 11, 25, 26, 100, 101, 260])
async def test_a_batch_of_any_size_is_answered_item_by_item(backend: Backend, size: int) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    batch = pages(size)
    assert await state.add(CRAWL, batch) == [Added.NEW] * size
    assert await state.add(CRAWL, batch) == [Added.AGAIN] * size
    leases = await take(state, size)
    assert {lease.digest for lease in leases} == {page.digest for page in batch}
    assert await state.extend(leases) == [Settled.SETTLED] * size
    endings = [(lease, skipped("robots") if number % 3 else done(1)) for number, lease in enumerate(leases)]
    assert await state.settle(endings) == [Settled.SETTLED] * size
    assert await state.settle(endings) == [Settled.LOST] * size
    assert len(await lines(state, CRAWL, Phase.DONE)) == -(-size // 3)
    assert len(await lines(state)) == size


@pytest.mark.parametrize("size", [10, 26, 101])
async def test_a_batch_of_the_longest_urls(backend: Backend, size: int) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    long = "/" + "x" * (LONGEST - len("http://a.example/") - 4) + "-"
    seed = page(long)
    await state.add(CRAWL, [seed])
    await state.settle([(await take_one(state), done(1))])
    links = [page(f"{long}{number:03}", parent=parent(seed), depth=1) for number in range(size)]
    assert {len(link.url) for link in links} == {LONGEST}
    assert await state.add(CRAWL, links) == [Added.NEW] * size
    leases = await take(state, size)
    assert {(lease.url, lease.parent_url) for lease in leases} == {(link.url, seed.url) for link in links}
    failed = [(lease, retry(0, "protocol", "e" * LONGEST)) for lease in leases]
    assert await state.settle(failed) == [Settled.SETTLED] * size
    again = await take(state, size)
    assert await state.settle([(lease, done(1)) for lease in again]) == [Settled.SETTLED] * size
    assert {line.url for line in (await lines(state, CRAWL, Phase.DONE)).values()} == {
        each.url for each in (seed, *links)
    }


async def test_many_names_are_asked_at_once(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    hosts = [f"h{number}.example" for number in range(260)]
    await state.add(CRAWL, [page("/", host) for host in hosts[::2]])
    assert await state.in_scope(CRAWL, hosts) == [True, False] * 130
    for number in range(0, 260, 26):
        await state.remember(hosts[number], b"%d" % number, 60)
    assert await state.recall(hosts) == [None if number % 26 else b"%d" % number for number in range(260)]


async def test_every_printable_character_of_a_url_arrives(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    seed = page("/?" + "".join(chr(code) for code in range(33, 127)))
    await state.add(CRAWL, [seed])
    lease = await take_one(state)
    assert lease.url == seed.url
    await state.add(CRAWL, [page("/link", parent=parent(lease))])
    assert (await take_one(state)).parent_url == seed.url


async def test_a_host_as_long_as_names_can_be(backend: Backend) -> None:
    assert len(HOST) == 253
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    seed = page("/", HOST)
    await state.add(CRAWL, [seed])
    assert await state.in_scope(CRAWL, [HOST, HOST[1:]]) == [True, False]
    assert (await take_one(state)).gate == HOST
    until = backend.now() + 60
    await state.hold(HOST, until=until, interval=5.0)
    turns = [await state.turn(CRAWL, HOST) for _ in range(2)]
    assert turns == pytest.approx([until, until + 5], abs=0.1)
    name = f"robots:https://{HOST}:65535"
    assert await state.remember(name, b"rules", 60, if_absent=True)
    assert not await state.remember(name, b"others", 60, if_absent=True)
    assert await state.recall([name]) == [b"rules"]
    assert (await lines(state))[seed.digest].gate == HOST


@pytest.mark.parametrize("words", ODD.values(), ids=ODD)
async def test_reasons_and_errors_of_any_characters_are_written(backend: Backend, words: str) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(2))
    one, two = await take(state, 2)
    failed = [(one, retry(0, f"odd{words}", f"error {words}")), (two, dead(f"odd{words}", f"error {words}"))]
    assert await state.settle(failed) == [Settled.SETTLED] * 2
    again = await take_one(state)
    assert (again.digest, again.attempt) == (one.digest, 2)
    assert await state.settle([(again, skipped(f"odd{words}"))]) == [Settled.SETTLED]
    for line in (await lines(state)).values():
        assert line.reason.startswith("odd")
        (failure,) = line.failures
        for text in (line.reason, line.error, failure.reason, failure.error):
            assert text.encode().decode() == text
        assert failure.reason.startswith("odd")
        assert failure.error.startswith("error")
        assert len(failure.error) <= ERROR_LENGTH


async def test_facts_of_any_name_are_told_apart(backend: Backend) -> None:
    state = await backend.open()
    names = [*ODD.values(), "n" * 1000, "n" * 1001]
    for number, name in enumerate(names):
        assert await state.remember(name, b"%d" % number, 60, if_absent=True)
    assert await state.recall(names) == [b"%d" % number for number in range(len(names))]
