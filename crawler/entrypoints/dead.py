"""`crawler dead`: what could not be had, why, and once more.

A dead letter is a page that failed as often as the crawl permits. It stays in the ledger with its last error until it
is retried or the crawl is purged.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any

from crawler import urls
from crawler.entrypoints.commands import json_line, named, opened, warn
from crawler.entrypoints.show import out
from crawler.entrypoints.status import ALIVE, iso
from crawler.errors import UsageError
from crawler.model import HOST_DOWN, WELL, CrawlRecord, PageState, Phase
from crawler.state.port import CrawlState
from crawler.url_key import keys_of

BATCH = 500
"""Pages revived in one call."""


# ---------------------------------------------------------------- list


async def show_list(
    address: str, store: str | None, crawl: str | None, reason: str | None, host: str | None, *, as_json: bool
) -> None:
    """Print how many dead letters there are by reason and host, most first; the letters themselves when chosen."""
    groups: Counter[tuple[str, str]] = Counter()
    letters: list[dict[str, Any]] = []
    chosen = bool(reason or host)
    async with opened(address, store=store, crawl=crawl) as state:
        record = await named(state, crawl)
        async for page in _dead(state, record.id, reason, host):
            groups[page.reason, urls.hostname(page.url)] += 1
            if chosen and as_json:
                letters.append(_letter(page))
            elif chosen:
                out(f"{page.url}  ({page.reason} after {page.attempts} attempts: {page.error})")
    if as_json:
        counted = [{"reason": r, "host": h, "count": count} for (r, h), count in groups.most_common()]
        answer = {"crawl": record.id, "dead": groups.total(), "groups": counted}
        out(json_line(answer | ({"pages": letters} if chosen else {})))
    elif not groups:
        out("no dead letters" + (" of this kind" if chosen else ""))
    elif not chosen:
        out(_table(groups))


def _table(groups: Counter[tuple[str, str]]) -> str:
    width = max(len(reason) for reason in ("reason", *(reason for reason, _ in groups)))
    lines = [f"{'pages':>7}  {'reason':<{width}}  host"]
    lines += [f"{count:>7,}  {reason:<{width}}  {host}" for (reason, host), count in groups.most_common()]
    lines.append("which: add --reason R or --host H; why: crawler dead show URL; once more: crawler dead retry")
    return "\n".join(lines)


async def _dead(state: CrawlState, crawl: str, reason: str | None, host: str | None) -> AsyncIterator[PageState]:
    """The dead pages of a crawl with a reason and of a host, or of any."""
    wire = urls.resolve(f"http://{host}/", f"http://{host}/") if host else None
    name = urls.hostname(wire) if wire else host
    async for page in state.ledger(crawl, Phase.DEAD):
        if reason in (None, page.reason) and (name is None or urls.hostname(page.url) == name):
            yield page


# ---------------------------------------------------------------- show


async def show(address: str, store: str | None, crawl: str | None, given: Sequence[str], *, as_json: bool) -> None:
    """Print all that is known of dead pages. UsageError names the URLs that are none, after the others were shown."""
    asked = _wire_urls(given)
    async with opened(address, store=store, crawl=crawl) as state:
        record = await named(state, crawl)
        wanted = {keys_of(record.settings).digest(url): url for url in asked}
        pages = await _find(state, record.id, wanted, Phase.DEAD)
        others = await _find(state, record.id, wanted.keys() - pages.keys())
        parents = await _find(state, record.id, {page.parent for page in pages.values() if page.parent is not None})
    shown = [(page, parents.get(page.parent or b"")) for digest in wanted if (page := pages.get(digest)) is not None]
    if shown and as_json:
        letters = [_letter(page) | _origin(page, parent) for page, parent in shown]
        out(json_line({"crawl": record.id, "pages": letters}))
    elif shown:
        out("\n\n".join(_card(page, parent) for page, parent in shown))
    wrong = [_no_letter(record.id, url, others.get(digest)) for digest, url in wanted.items() if digest not in pages]
    if wrong:
        raise UsageError("; ".join(wrong))


def _wire_urls(given: Iterable[str]) -> list[str]:
    """The URLs a user named, in the form in which they are fetched. UsageError for what is no URL."""
    asked = []
    for text in given:
        wire = urls.resolve(text, text)
        if wire is None:
            raise UsageError(f"{text!r} is not a URL: write for example https://example.com/page")
        asked.append(wire)
    return asked


async def _find(
    state: CrawlState, crawl: str, digests: Collection[bytes], phase: Phase | None = None
) -> dict[bytes, PageState]:
    """Pages by digest; reads the ledger no further than it must."""
    missing = set(digests)
    found: dict[bytes, PageState] = {}
    if missing:
        async for page in state.ledger(crawl, phase):
            if page.digest in missing:
                found[page.digest] = page
                missing.discard(page.digest)
                if not missing:
                    break
    return found


def _no_letter(crawl: str, url: str, page: PageState | None) -> str:
    if page is None:
        return f"{url} is not known to crawl {crawl}"
    return f"{url} is no dead letter: it is {page.phase}" + (f" ({page.reason})" if page.reason else "")


def _card(page: PageState, parent: PageState | None) -> str:
    """A dead page for people."""
    if page.parent is None:
        origin = "a seed"
    else:
        origin = f"on {parent.url if parent is not None else 'a page of digest ' + page.parent.hex()}"
    rows = [
        ("reason", page.reason),
        ("error", page.error),
        ("attempts", f"{page.attempts}"),
        ("found", f"{origin}, {iso(page.discovered_at)}, depth {page.depth}"),
        *(("failed", f"{iso(failure.at)}  {failure.reason}  {failure.error}") for failure in page.failures),
    ]
    return "\n".join([page.url, *(f"  {name:<10}{value}" for name, value in rows)])


def _letter(page: PageState) -> dict[str, Any]:
    """A dead page for scripts."""
    return {
        "url": page.url,
        "reason": page.reason,
        "error": page.error,
        "attempts": page.attempts,
        "failed_at": iso(page.failures[-1].at) if page.failures else None,
    }


def _origin(page: PageState, parent: PageState | None) -> dict[str, Any]:
    return {
        "depth": page.depth,
        "discovered_at": iso(page.discovered_at),
        "parent_url": parent.url if parent is not None else None,
        "parent_digest": page.parent.hex() if page.parent is not None else None,
        "failures": [
            {"at": iso(failure.at), "reason": failure.reason, "error": failure.error} for failure in page.failures
        ],
    }


# ---------------------------------------------------------------- retry


async def retry(
    address: str,
    store: str | None,
    crawl: str | None,
    given: Sequence[str],
    reason: str | None,
    host: str | None,
    rate: float | None,
    *,
    as_json: bool,
) -> str:
    """Queue dead pages again: those given, else those with a reason and of a host (None: any). Says how many.

    `rate` pages a second become claimable; None: all at once. If the process dies here, what was revived is queued and
    the rest is dead as before: the same command goes on.
    """
    asked = _wire_urls(given)
    async with opened(address, store=store, crawl=crawl) as state:
        record = await named(state, crawl)
        wanted = {keys_of(record.settings).digest(url): url for url in asked}
        chosen, gates = list(wanted), {_gate(url, record) for url in wanted.values()}
        if not wanted:
            async for page in _dead(state, record.id, reason, host):
                chosen.append(page.digest)
                if page.reason == HOST_DOWN:
                    gates.add(_gate(page.url, record))
        for gate in gates:
            # A host that was given up gets a chance at once; before its pages come, or they would end as they did.
            await state.diagnose(gate, WELL)
        revived = await _revive(state, record.id, chosen, rate)
        left = [digest for digest, again in zip(chosen, revived, strict=True) if wanted and not again]
        others = await _find(state, record.id, left)
        idle = not any(beat.at > time.time() - ALIVE for beat in await state.workers())
    count = sum(revived)
    wrong = [f"{wanted[digest]} is not known to crawl {record.id}" for digest in left if digest not in others]
    if wrong:
        raise UsageError("; ".join(wrong) + (f" ({count} others are queued again)" if count else ""))
    for page in others.values():
        warn(_no_letter(record.id, page.url, page))
    if as_json:
        return json_line({"crawl": record.id, "retried": count})
    text = f"{count} dead letters queued again"
    if rate and count > 1:
        text += f", the last in {(count - 1) / rate:,.0f} s"
    if count and idle:
        text += "; now run `crawler crawl` on the same folder again, or `crawler work`"
    return text


def _gate(url: str, record: CrawlRecord) -> str:
    return urls.gate_name(urls.hostname(url), record.settings.pace_by)


async def _revive(state: CrawlState, crawl: str, digests: Sequence[bytes], rate: float | None) -> list[bool]:
    begin = time.time()
    times = [begin + number / rate if rate else 0.0 for number in range(len(digests))]
    answers: list[bool] = []
    for start in range(0, len(digests), BATCH):
        some = slice(start, start + BATCH)
        answers += await state.revive(crawl, list(zip(digests[some], times[some], strict=True)))
    return answers
