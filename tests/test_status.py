"""`crawler status`: counts by reason, and the table of hosts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawler.entrypoints.show import host_table, reasons, shorten
from crawler.entrypoints.status import ORDERS, HostRow, hosts_of, status_of
from crawler.model import Health, Why, dead, done, skipped
from crawler.state.sqlite import SqliteState
from tests import command
from tests.faults.crawls import CRAWL, STATE, seeded, state_in

PROMISED = {
    *("crawl", "state", "discovered", "pending", "leased", "done", "skipped", "dead", "exact", "workers_alive"),
    *("pages_per_second", "bytes", "hosts", "started_at", "updated_at"),
}


async def three_hosts(folder: Path) -> None:
    """A crawl with a host that was skipped, died and waits, one that is done, and one that waits alone."""
    seeds = [f"http://a.example/{number}" for number in range(6)] + ["http://b.example/", "http://c.example/"]
    await seeded(folder, seeds)
    async with state_in(folder, "w") as state:
        leases = {lease.url: lease for lease in await claimed(state, 8)}
        endings = [
            (leases["http://a.example/0"], skipped("robots")),
            (leases["http://a.example/1"], skipped("robots")),
            (leases["http://a.example/2"], skipped("trap-deep")),
            (leases["http://a.example/3"], dead("timeout", "no answer")),
            (leases["http://b.example/"], done(100)),
        ]
        await state.settle(endings)
        await state.release("w")
        await state.hold("a.example", until=time.time() + 600, why=Why.RETRY_AFTER, interval=2.5)
        await state.diagnose("c.example", Health(failures=3, error="refused\n\x1b[31m" + "x" * 100))


async def claimed(state: SqliteState, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += await state.claim(count)
    return found


def rows_of(text: str) -> list[list[str]]:
    """The table of hosts, after the empty line: header first."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.split("\n\n")[1].splitlines()]


async def test_counts_are_told_by_reason(tmp_path: Path) -> None:
    await three_hosts(tmp_path)
    address = ("--state", str(tmp_path / STATE))
    status = command.status(*address)
    assert set(status) >= PROMISED
    assert (status["skips"], status["deaths"]) == ({"robots": 2, "trap-deep": 1}, {"timeout": 1})
    assert "host_table" not in status
    lines = command.run("status", *address).stdout.splitlines()
    assert "skipped          3 (robots 2, trap-deep 1)" in lines
    assert "dead             1 (timeout 1)" in lines


async def test_hosts_are_shown_with_their_turns_and_why(tmp_path: Path) -> None:
    await three_hosts(tmp_path)
    address = ("--state", str(tmp_path / STATE))
    header, *hosts = rows_of(command.run("status", "--hosts", *address).stdout)
    assert header == ["host", "pending", "in flight", "done", "next turn", "interval", "why", "failures"]
    assert [host[0] for host in hosts] == ["a.example", "c.example", "b.example"]
    assert hosts[0][1:4] == ["2", "0", "0"]
    assert hosts[0][5:7] == ["2.5 s", "retry-after"]
    assert hosts[1][4] == "now"
    assert hosts[1][-2] == "3"
    assert hosts[1][-1].startswith("refused ?[31mxxx")
    assert hosts[1][-1].endswith("…")


async def test_a_script_gets_every_host(tmp_path: Path) -> None:
    await three_hosts(tmp_path)
    options = ("--state", str(tmp_path / STATE), "--hosts", "--sort", "host", "--top", "1")
    status = command.status(*options)
    hosts = msgspec.convert(status["host_table"], list[HostRow])
    assert [host.host for host in hosts] == ["a.example", "b.example", "c.example"]
    first = hosts[0]
    assert (first.pending, first.leased, first.done, first.interval, first.why) == (2, 0, 0, 2.5, "retry-after")
    assert 300 < first.next_turn <= 600
    assert hosts[2].next_turn == 0
    assert hosts[2].failures == 3
    assert sum(host.pending for host in hosts) == status["pending"]


async def test_hosts_beyond_the_first_are_counted(tmp_path: Path) -> None:
    await three_hosts(tmp_path)
    options = ("--state", str(tmp_path / STATE), "--hosts", "--sort", "done", "--top", "1")
    _, first, more = rows_of(command.run("status", *options).stdout)
    assert first[0] == "b.example"
    assert more == ["and 2 hosts more (--top N)"]


async def test_hosts_follow_a_crawl_that_goes_on(tmp_path: Path) -> None:
    await three_hosts(tmp_path)
    watching = command.start("status", "--watch", "--hosts", "--json", "--state", str(tmp_path / STATE))
    try:
        assert watching.stdout is not None
        before = msgspec.json.decode(watching.stdout.readline())
        async with state_in(tmp_path, "w") as state:
            await state.settle([(lease, done(1)) for lease in await claimed(state, 1)])
        while before == (after := msgspec.json.decode(watching.stdout.readline())) or after["done"] == before["done"]:
            pass
        assert sum(host["done"] for host in after["host_table"]) == 2
    finally:
        watching.kill()
        watching.communicate()


@pytest.mark.parametrize("options", [("--sort", "colour"), ("--top", "0"), ("--top", "many")])
def test_hosts_cannot_be_shown_otherwise(options: tuple[str, ...], tmp_path: Path) -> None:
    result = command.run("status", "--hosts", *options, "--state", str(tmp_path / STATE))
    assert result.returncode == 2
    assert options[0] in result.stderr


# ---------------------------------------------------------------- the pure parts


def host(name: str, **values: Any) -> HostRow:
    numbers = {"pending": 0, "leased": 0, "done": 0, "next_turn": 0.0, "interval": 1.0, "failures": 0}
    return HostRow(**{"host": name, "why": Why.DEFAULT, "error": "", **numbers, **values})


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("pending", "bacd"),
        ("leased", "cabd"),
        ("done", "dabc"),
        ("next", "acdb"),
        ("interval", "dbac"),
        ("host", "abcd"),
        ("failures", "abcd"),
    ],
)
def test_hosts_are_sorted(order: str, expected: str) -> None:
    hosts = [
        host("d", done=5, next_turn=1.5, interval=9.0),
        host("c", leased=2, next_turn=0.5, interval=0.0),
        host("b", pending=10, next_turn=100.0, interval=5.0),
        host("a", pending=3),
    ]
    assert "".join(row.host for row in sorted(hosts, key=lambda row: (ORDERS[order](row), row.host))) == expected


def test_a_table_has_its_columns_under_each_other() -> None:
    text = host_table([host("long.example.com", pending=1_234_567), host("b", interval=0.0, next_turn=90.0)], 20)
    header, first, second = text.splitlines()
    assert first == "long.example.com  1,234,567          0     0        now       1 s  default"
    assert second == "b                         0          0     0     90.0 s      none  default"
    assert header.index("pending") + len("pending") == first.index("1,234,567") + len("1,234,567")


def test_reasons_are_the_most_frequent_first() -> None:
    assert reasons({}) == ""
    assert reasons({"a": 1, "robots": 1200, "b": 1}) == " (robots 1,200, a 1, b 1)"


def test_errors_are_shortened_to_a_line() -> None:
    assert shorten("a\nb\t c", 10) == "a b c"
    assert shorten("x" * 11, 10) == "x" * 9 + "…"


async def test_a_crawl_without_hosts_has_an_empty_table(tmp_path: Path) -> None:
    await seeded(tmp_path, [])
    async with state_in(tmp_path, "w") as state:
        (record,) = await state.crawls()
        assert await hosts_of(state, record, "pending") == []
        assert (await status_of(state, record)).skips == {}
        assert record.id == CRAWL
