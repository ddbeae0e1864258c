"""`crawler robots`: what a site's robots.txt says about a URL, and why. Reads no state."""

from __future__ import annotations

from pathlib import Path

import msgspec

from crawler import urls
from crawler.config import CrawlSettings
from crawler.errors import UsageError
from crawler.fetch import Fetcher
from crawler.robots_explain import Cited, Explanation, explain
from crawler.robots_fetch import PATH, Failed, download


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed: the verdict, where the rules came from, and the lines that decided.

    source: URL or file of the rules. taken: how the answer was understood. status: None when there was none.
    """

    url: str
    product_token: str
    allowed: bool
    reason: str
    source: str
    taken: str
    status: int | None = None
    redirects: tuple[str, ...] = ()
    group: tuple[Cited, ...] = ()
    rule: Cited | None = None
    crawl_delay: float | None = None
    crawl_delay_line: Cited | None = None
    sitemaps: tuple[Cited, ...] = ()


async def robots(url: str, settings: CrawlSettings, file: str | None, *, as_json: bool) -> str:
    """Explain the file at its site, or a local one. Raises UsageError; a host that cannot be reached is an answer."""
    wire = urls.resolve(url, url)
    if wire is None:
        raise UsageError(f"{url!r} is not a URL that can be crawled: write for example https://example.com/page")
    answer = _local(wire, settings, file) if file is not None else await _remote(wire, settings)
    return msgspec.json.encode(answer).decode() if as_json else text(answer)


def _local(url: str, settings: CrawlSettings, file: str) -> Answer:
    try:
        body = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"--file {file}: {error.strerror or error}") from None
    return _answer(explain(body, url, settings.product_token), url, settings, file, "local file")


async def _remote(url: str, settings: CrawlSettings) -> Answer:
    origin = urls.origin(url)
    async with Fetcher(settings.user_agent, settings.contact, settings.allow_private) as fetcher:
        try:
            got = await download(fetcher, origin, partial=True)
        except Failed as failed:
            return Answer(
                url=url,
                product_token=settings.product_token,
                allowed=False,
                reason=f"unreachable: {failed}",
                source=origin + PATH,
                taken="not to be had: nothing may be fetched until it is",
                redirects=failed.redirects,
            )
    explanation = explain(got.body, url, settings.product_token)
    answer = _answer(explanation, url, settings, origin + PATH, got.taken)
    return msgspec.structs.replace(answer, status=got.status, redirects=got.redirects)


def _answer(explanation: Explanation, url: str, settings: CrawlSettings, source: str, taken: str) -> Answer:
    found = msgspec.structs.asdict(explanation)
    return Answer(url=url, product_token=settings.product_token, source=source, taken=taken, **found)


def text(answer: Answer) -> str:
    """The answer for people."""
    verdict = "allowed" if answer.allowed else "disallowed"
    delay = answer.crawl_delay
    rows = [
        ("robots.txt", f"{answer.source} ({answer.taken})"),
        *(("redirected to", target) for target in answer.redirects),
        *(("group", _line(agent)) for agent in answer.group),
        *([("rule", _line(answer.rule))] if answer.rule else []),
        *([("crawl delay", f"{delay:g} s, {_line(answer.crawl_delay_line)}")] if answer.crawl_delay_line else []),
        *(("sitemap", f"{sitemap.text} (line {sitemap.line})") for sitemap in answer.sitemaps),
    ]
    head = f"{verdict}: {answer.url} for {answer.product_token}: {answer.reason}"
    if answer.reason.startswith("unreachable"):
        head = f"{verdict}: {answer.reason}"
    return "\n".join([head, *(f"  {name:<14}{value}" for name, value in rows)])


def _line(cited: Cited) -> str:
    return f"line {cited.line}: {cited.text}"
