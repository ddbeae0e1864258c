"""Similarity hashes: near duplicates are near, different pages far; and the index that finds them."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from selectolax.lexbor import LexborHTMLParser

from crawler.demo.content import Site
from crawler.near_duplicates import NearDuplicates
from crawler.simhash import FEWEST, NEAR, distance, simhash, visible_text

Edit = Callable[[random.Random, list[str], list[str]], None]


def shown(markup: str) -> str:
    return visible_text(LexborHTMLParser(markup))


def hash_of(text: str) -> int:
    value = simhash(text)
    assert value is not None
    return value


@pytest.fixture(scope="module")
def texts() -> Sequence[str]:
    """The demo site's pages: some 670 words each, of a vocabulary of 60."""
    site = Site(8000)
    places = [site.find(*url.removeprefix("http://").split(":8000", 1)) for url in sorted(site.truth.pages)]
    return [shown(site._pages.render(place)) for place in places if place is not None]


def date(rng: random.Random, words: list[str], other: list[str]) -> None:
    words[rng.randrange(len(words))] = f"2026-11-{rng.randrange(1, 31):02}"


def token(rng: random.Random, words: list[str], other: list[str]) -> None:
    words.insert(rng.randrange(len(words)), f"{rng.getrandbits(128):032x}")


def counters(rng: random.Random, words: list[str], other: list[str]) -> None:
    for _ in range(3):
        words[rng.randrange(len(words))] = str(rng.randrange(10_000))


def sentence(rng: random.Random, words: list[str], other: list[str]) -> None:
    """One of forty is another page's."""
    length = len(words) // 40
    at, there = rng.randrange(len(words) - length), rng.randrange(len(other) - length)
    words[at : at + length] = other[there : there + length]


@pytest.mark.parametrize(("edit", "part"), [(date, 0.99), (token, 0.99), (counters, 0.95), (sentence, 0.95)])
def test_a_page_that_differs_a_little_is_near(texts: Sequence[str], edit: Edit, part: float) -> None:
    rng = random.Random(1)
    near = 0
    for text in texts:
        words = text.split()
        edit(rng, words, rng.choice(texts).split())
        near += distance(hash_of(text), hash_of(" ".join(words))) <= NEAR
    assert near >= part * len(texts)


def test_prose_of_forty_sentences_is_near_when_one_is_new() -> None:
    rng = random.Random(6)
    near = 0
    for _ in range(200):
        words = [f"w{int(rng.paretovariate(0.5)) % 6000}" for _ in range(40 * 15)]
        edited = [*words[:150], *(f"new{rng.randrange(6000)}" for _ in range(15)), *words[165:]]
        near += distance(hash_of(" ".join(words)), hash_of(" ".join(edited))) <= NEAR
    assert near >= 0.75 * 200


def test_different_pages_are_far(texts: Sequence[str]) -> None:
    hashes = [hash_of(text) for text in texts]
    distances = [distance(one, other) for at, one in enumerate(hashes) for other in hashes[:at]]
    assert min(distances) > NEAR
    assert sum(distances) / len(distances) > 16


def test_text_without_blanks_is_told_apart_as_well() -> None:
    rng = random.Random(2)
    letters = [chr(rng.randrange(0x4E00, 0x5200)) for _ in range(1200)]
    page, dated = "".join(letters), "".join([*letters[:600], "二〇二六年", *letters[605:]])
    other = "".join(chr(rng.randrange(0x4E00, 0x5200)) for _ in range(1200))
    assert distance(hash_of(page), hash_of(dated)) <= NEAR
    assert distance(hash_of(page), hash_of(other)) > 16


def test_the_order_of_words_and_the_spacing_count_as_they_are_read(texts: Sequence[str]) -> None:
    words = texts[0].split()
    assert hash_of("\n\t ".join(words)) == hash_of(" ".join(words))
    assert distance(hash_of(" ".join(reversed(words))), hash_of(" ".join(words))) > NEAR


def test_a_long_text_is_near_its_edited_self_and_text_that_repeats_itself_has_a_hash() -> None:
    rng = random.Random(3)
    words = [f"w{rng.randrange(5000)}" for _ in range(60_000)]
    edited = [*words[:30_000], "today", *words[30_000:]]
    assert distance(hash_of(" ".join(words)), hash_of(" ".join(edited))) <= NEAR
    assert distance(hash_of(" ".join(words[:300] * 200)), hash_of(" ".join(words[:300]))) <= NEAR


def test_little_text_has_no_hash() -> None:
    assert simhash("") is None
    assert simhash(" ".join(map(str, range(FEWEST)))) is None
    assert simhash(" ".join(map(str, range(FEWEST + 1)))) is not None
    assert simhash("the same " * 5000) is None


def test_what_is_never_shown_does_not_count() -> None:
    page = "<title>t</title><body><p>one<script>two</script><style>three</style><template>four</template> five</p>"
    assert shown(page + "<noscript>six</noscript>").split() == ["one", "five", "six"]
    assert shown("<frameset><frame src=/a></frameset>") == ""


def test_a_hash_is_an_int64_and_the_same_in_every_process() -> None:
    text = " ".join(map(str, range(1000)))
    code = (
        "from crawler.simhash import simhash; print([simhash(' '.join(map(str, range(n)))) for n in (1000, 90, 200)])"
    )
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    (printed,) = runs
    assert printed.decode().startswith(f"[{simhash(text)}, ")
    values = [hash_of(" ".join(map(str, range(n, n + 200)))) for n in range(0, 8000, 200)]
    assert all(-(2**63) <= value < 2**63 for value in values)
    assert min(values) < 0 < max(values)


def flipped(value: int, *bits: int) -> int:
    for bit in bits:
        value ^= -(2**63) if bit == 63 else 1 << bit
    return value


def test_the_index_finds_what_differs_in_up_to_three_bits() -> None:
    rng = random.Random(4)
    index = NearDuplicates()
    values = [rng.getrandbits(64) - 2**63 for _ in range(2000)]
    for number, value in enumerate(values):
        index.add("a.example", value, f"u{number}")
    for number, value in enumerate(values):
        near = flipped(value, *rng.sample(range(64), rng.randint(0, 3)))
        assert index.find("a.example", near) == f"u{number}"
        assert index.find("a.example", flipped(value, *rng.sample(range(64), 4))) is None
        assert index.find("b.example", value) is None


def test_the_index_forgets_the_oldest_and_names_the_latest() -> None:
    rng = random.Random(5)
    index = NearDuplicates(remembered=100)
    values = [rng.getrandbits(64) - 2**63 for _ in range(350)]
    for number, value in enumerate(values):
        index.add("h", value, f"u{number}")
    found = [index.find("h", value) for value in values]
    assert found == [None] * 250 + [f"u{number}" for number in range(250, 350)]
    index.add("h", flipped(values[-1], 0), "latest")
    assert index.find("h", values[-1]) == "latest"


def test_many_pages_of_one_block_cost_a_bounded_search() -> None:
    index = NearDuplicates()
    for number in range(5000):
        index.add("h", number << 20, f"u{number}")
    assert index.find("h", 4999 << 20) == "u4999"
    assert index.find("h", -1) is None
