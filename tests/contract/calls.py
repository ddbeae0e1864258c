"""Every method of the port as a call that has something to do, so that no test of all of them forgets one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping

from crawler.config import CrawlSettings
from crawler.model import Beat, CrawlRecord, Health, HostState, Lease, PageState, Phase, Why, done
from crawler.state.port import CrawlState
from tests.contract.words import CRAWL, page, pages

Call = Callable[[], Awaitable[object]]

METHODS = {name for name, member in vars(CrawlState).items() if inspect.isfunction(member) and not name.startswith("_")}
"""The methods of the port."""


def calls(state: CrawlState, lease: Lease) -> Mapping[str, Call]:
    """One call a method on a crawl of which `lease` is held; `close` is the last."""

    async def ledger() -> list[PageState]:
        return [line for phase in (None, *Phase) async for line in state.ledger(CRAWL, phase)]

    async def hosts() -> list[HostState]:
        return [host async for host in state.hosts(CRAWL)]

    found: dict[str, Call] = {
        "create": lambda: state.create(CrawlRecord(id="another", started_at=1.0, settings=CrawlSettings())),
        "crawls": lambda: state.crawls(),
        "amend": lambda: state.amend(CRAWL, CrawlSettings(rate=3.0)),
        "pause": lambda: state.pause(CRAWL),
        "resume": lambda: state.resume(CRAWL),
        "add": lambda: state.add(CRAWL, pages(30, "b.example")),
        "claim": lambda: state.claim(10),
        "extend": lambda: state.extend([lease]),
        "settle": lambda: state.settle([(lease, done(1))]),
        "turn": lambda: state.turn(CRAWL, lease.gate),
        "hold": lambda: state.hold(lease.gate, until=1.0, why=Why.RETRY_AFTER, interval=2.0),
        "diagnose": lambda: state.diagnose(lease.gate, Health(gap=1.0, failures=1, error="refused")),
        "occupy": lambda: state.occupy(lease.gate, "worker-1/1", lease.start_at + 60),
        "upheld": lambda: state.upheld(lease),
        "in_scope": lambda: state.in_scope(CRAWL, ["a.example"]),
        "recall": lambda: state.recall(["name"]),
        "remember": lambda: state.remember("name", b"value", 60),
        "beat": lambda: state.beat(Beat(worker="worker-1", at=1.0)),
        "workers": lambda: state.workers(),
        "release": lambda: state.release("worker-1"),
        "counts": lambda: state.counts(CRAWL),
        "complete": lambda: state.complete(CRAWL),
        "hosts": hosts,
        "ledger": ledger,
        "revive": lambda: state.revive(CRAWL, [(page().digest, 0.0)]),
        "sweep": lambda: state.sweep(CRAWL),
        "drain_dead_letters": lambda: state.drain_dead_letters(),
        "purge": lambda: state.purge(CRAWL),
        "close": lambda: state.close(),
    }
    assert set(found) == METHODS, "a method of the port without a call here"
    return found
