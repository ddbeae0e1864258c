"""The saved queries: right on a real crawl and on rows made at random, and in the words that Athena knows."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from crawler.archive.rows import PageRow
from crawler.archive.schema import SCHEMA, ParquetFile
from crawler.sql.local import Pages
from crawler.sql.queries import SavedQuery, saved_queries
from tests.sql.conftest import Crawled, Row
from tests.sql.expected import EXPECTED, MOST_HOPS
from tests.sql.site import CRAWL, HOPS

pytestmark = pytest.mark.xdist_group("sql")

QUERIES = {query.name: query for query in saved_queries()}

FUNCTIONS = {"coalesce", "count", "max", "max_by", "min", "round", "row_number", "sum"}
"""What the queries may call: Trino and DuckDB have them with the same meaning."""

WORDS = {"array", "as", "over", "unnest", "when"}
"""Followed by a bracket, too."""


def answers(query: SavedQuery, file: Path, crawl: str) -> list[tuple[object, ...]]:
    with Pages(file, "2026-09-21") as pages:
        return pages.run(query.text, crawl).cursor.fetchall()


def random_rows(seed: int, crawl: str, count: int = 400) -> list[PageRow]:
    """Rows of few hosts and URLs, so that they meet; all that may be null is null at times."""
    chance = random.Random(seed)
    urls = [f"http://h{number % 7}.test/{number}" for number in range(count)]
    some = [*urls[: count // 3], "http://nowhere.test/"]
    rows = []
    for number, url in enumerate(urls):
        outcome = chance.choices(("done", "skipped", "dead"), (8, 2, 1))[0]
        status = chance.choice((200, 200, 204, 301, 302, 304, 404, 410, 500)) if outcome != "skipped" else None
        rows.append(
            PageRow(
                crawl_id=crawl,
                url=url,
                url_key=chance.choice((url, f"{url}?key")),
                host=f"h{number % 7}.test",
                depth=1,
                outcome=outcome,
                status=status if outcome == "done" else chance.choice((None, status)),
                reason=chance.choice(("robots", "limit")) if outcome == "skipped" else None,
                parent_url=chance.choice((None, *some)),
                elapsed_ms=chance.choice((None, 0, 7, 7, chance.randrange(5000))),
                bytes=chance.choice((None, 0, chance.randrange(10**12))),
                duplicate_of=chance.choice(some[:5]) if outcome == "done" and number % 5 == 0 else None,
                redirect_to=chance.choice((None, *some, *(f"{each}?key" for each in some))),
                title=chance.choice((None, "'; --", f"Title {number}")),
            )
        )
        if rows[-1].duplicate_of:
            rows[-1].bytes = number
    return rows


@pytest.mark.parametrize("name", EXPECTED)
def test_a_query_answers_what_the_rows_say(crawled: Crawled, name: str) -> None:
    table = answers(QUERIES[name], crawled.file, CRAWL)
    assert table == EXPECTED[name](crawled.rows)
    assert table
    assert answers(QUERIES[name], crawled.file, "another") == []


@pytest.mark.parametrize("name", EXPECTED)
def test_a_query_answers_the_same_as_python_on_random_rows(tmp_path: Path, name: str) -> None:
    for seed in range(3):
        rows = random_rows(seed, CRAWL)
        file = tmp_path / f"{seed}.parquet"
        with ParquetFile(file) as parquet:
            parquet.write(rows)
            parquet.write(random_rows(seed + 100, "another"))
        plain: list[Row] = [{column: getattr(row, column) for column in SCHEMA.names} for row in rows]
        assert answers(QUERIES[name], file, CRAWL) == EXPECTED[name](plain)


def test_the_answers_are_those_that_one_counts_by_hand_on_the_site(crawled: Crawled) -> None:
    """From the site's own description, so that rows, queries and Python are not wrong together."""

    def answered(name: str) -> list[tuple[object, ...]]:
        table = answers(QUERIES[name], crawled.file, CRAWL)
        return [
            tuple(re.sub(r"^http://|:\d+", "", cell) if isinstance(cell, str) else cell for cell in row)
            for row in table
        ]

    # Its front, 19 links, 11 hops more, the other half of a loop; of two: front, a page, what is gone, what is closed.
    assert [row[:-1] for row in answered("status-by-host")] == [
        ("one.localhost", 32, 9, 0, 18, 2, 2, 1),
        ("two.localhost", 4, 2, 0, 0, 1, 1, 0),
        ("elsewhere.localhost", 1, 0, 0, 0, 0, 1, 0),
    ]
    assert answered("robots-blocked") == [("one.localhost", 32, 2, 6.3), ("two.localhost", 4, 1, 25.0)]
    assert answered("broken-links") == [
        (500, "http-500", "one.localhost/broken", "one.localhost/", "Start"),
        (404, None, "one.localhost/gone", "one.localhost/", "Start"),
        (404, None, "one.localhost/gone/too", "one.localhost/", "Start"),
        (404, None, "two.localhost/gone", "two.localhost/", "two.localhost /"),
    ]
    size = len("<title>The same</title>" + "same " * 100)
    ((original, copies, copied, example),) = answered("duplicates")
    assert (copies, copied) == (2, 2 * size)
    assert {original, example} < {f"one.localhost/same/{number}" for number in (1, 2, 3)}
    chains = answered("redirect-chains")
    assert len(chains) == 18
    assert (8, "one.localhost/hop/4", "one.localhost/hop/12", "done", 200, "one.localhost/") in chains
    assert (9, "one.localhost/self", "one.localhost/self", "loop", 302, "one.localhost/") in chains
    assert (1, "one.localhost/away", "elsewhere.localhost/", "skipped", None, "one.localhost/") in chains
    assert (1, "one.localhost/spelled", "one.localhost/view?a=1&b=2", "done", 200, "one.localhost/") in chains
    assert [row[:2] for row in answered("slowest-hosts") if row[0] == "two.localhost"] == [("two.localhost", 3)]


def test_the_crawl_has_what_the_queries_ask_about(crawled: Crawled) -> None:
    chains = {
        line[1].rpartition("localhost")[2].partition("/")[2]: line for line in EXPECTED["redirect-chains"](crawled.rows)
    }
    assert {line[3] for line in chains.values()} == {"done", "skipped", "loop", "unknown"}
    assert HOPS > MOST_HOPS
    assert (chains["hop/0"][3], chains["hop/4"][3]) == ("loop", "done")
    assert (chains["self"][3], chains["loop/1"][3], chains["spelled"][3]) == ("loop", "loop", "done")
    assert {line[0] for line in EXPECTED["broken-links"](crawled.rows)} == {404, 500}
    assert [line[1] for line in EXPECTED["duplicates"](crawled.rows)] == [2]
    assert len(EXPECTED["robots-blocked"](crawled.rows)) == 2


def test_each_file_has_a_title_a_description_and_one_parameter() -> None:
    assert QUERIES.keys() == EXPECTED.keys()
    for query in QUERIES.values():
        assert 0 < len(query.title) <= 128, "what Athena allows"
        assert 0 < len(query.description) <= 1024, "what Athena allows"
        assert len(query.text) <= 262_144, "what Athena allows"
        assert query.text.count("?") == 1
        assert re.search(r"WHERE crawl_id = \?", query.text)
        assert ";" not in "\n".join(line for line in query.text.splitlines() if not line.startswith("--"))


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_query_keeps_to_functions_that_both_engines_have(query: SavedQuery) -> None:
    code = re.sub(r"--.*|'[^']*'", "", query.text)
    called = {word.lower() for word in re.findall(r"([A-Za-z_]+) ?\(", code)}
    own = {name.lower() for name in re.findall(r"^(?:WITH )?(\w+)(?: \([^)]*\))? AS \(", code, re.MULTILINE)}
    assert called - FUNCTIONS - WORDS - own - {"spelled", "and", "or"} == set()
    assert not re.search(r'::|"|\bFILTER\b|\bQUALIFY\b|\bILIKE\b|\bUSING\b|\bGROUP BY ALL\b', code)


def test_all_parts_of_a_recursive_query_name_their_columns_and_it_ends_before_ten_steps() -> None:
    """What Trino asks of it, whose recursion is written out in advance."""
    recursive = [query for query in QUERIES.values() if "RECURSIVE" in query.text]
    assert recursive
    for query in recursive:
        parts = re.findall(r"^\w+( \(.+\))? AS \($", query.text, re.MULTILINE)
        assert len(parts) == 3
        assert all(parts)
        (limit,) = re.findall(r"hops < (\d+)", query.text)
        assert int(limit) == MOST_HOPS < 10


def test_the_documentation_has_each_query_with_a_sample() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
    for query in QUERIES.values():
        section = text.partition(f"### {query.name}\n")[2].partition("\n### ")[0]
        assert " ".join(section.split()).startswith(query.description)
        assert "\n    " in section
