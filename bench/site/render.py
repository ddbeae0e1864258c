"""The pages' HTML: navigation, prose and the links, each in one of the spellings found on the web."""

from __future__ import annotations

import html
import json
import math
import random
from collections.abc import Callable

from bench.site.plan import Extra, Page, Plan
from bench.site.text import Text
from crawler.demo.pages import relative

_TRACKERS = ("utm_source=news&utm_medium=mail", "utm_source=tw&utm_campaign=q3", "utm_source=fb", "fbclid=IwAR0abc")
_STYLE = (
    "<style>"
    + "".join(
        f".c{i}{{margin:{i}px {i + 1}px;padding:{i % 7}px;color:#{i * 7919 % 0xFFFFFF:06x};display:flex}}"
        for i in range(22)
    )
    + "</style>"
)
_CONFIG = json.dumps({f"k{i}": [i, i * 3, f"<a href='/fake{i}'>x</a>"] for i in range(18)}).replace("</", "<\\/")
_SCRIPT = (
    "<script>window.dataLayer=window.dataLayer||[];(function(w,d){var s=d.createElement('script');s.async=1;"
    "s.src='/static/app.js?v=3';if(w.a<w.b&&w.c>1){d.head.appendChild(s)}})(window,document);"
    f"var cfg={_CONFIG};</script>"
)


def escape(text: str) -> str:
    return text.replace("&", "&amp;")


class Renderer:
    """Renders the pages of a plan; `links` counts the content links written so far."""

    def __init__(self, plan: Plan, text: Text, rng: random.Random) -> None:
        self._plan = plan
        self._text = text
        self._sentences = [text.sentence(rng) for _ in range(500)]
        self._headers = [self._header(host) for host in range(len(plan.hosts))]
        self._footers = [self._footer(host) for host in range(len(plan.hosts))]
        self.links = 0

    def page(self, page: Page) -> str:
        """The page's HTML, a function of the plan and its number alone."""
        rng = random.Random(self._plan.shape.seed * 1000003 + page.number)
        size = min(300_000, max(9_000, rng.lognormvariate(math.log(25_000), 0.8)))
        based = rng.random() < 0.01 and not page.nofollow
        title = self._text.title(rng)
        links = self._links(rng, page, based)
        self.links += len(links)
        parts = [self._head(rng, page, title, based), self._headers[page.host]]
        parts.append(f'\n<main id="main"><article class="post"><h1>{title}</h1>\n')
        parts.append(f'<!-- <a href="/commented-out-{page.number}">no</a> -->\n')
        footer = self._footers[page.host]
        written = sum(map(len, parts)) + len(footer) + sum(map(len, links)) + 300
        aside, inline = links[: len(links) // 3], links[len(links) // 3 :]
        while inline or written < size:
            block = self._block(rng, inline, full=written >= size)
            parts.append(block)
            written += len(block)
        items = "".join(f"<li>{link}</li>" for link in aside)
        parts.append(f'</article><aside class="related"><ul>{items}</ul></aside></main>\n{footer}\n</body>\n</html>\n')
        return "".join(parts)

    # ---------------------------------------------------------------- links

    def _links(self, rng: random.Random, page: Page, based: bool) -> list[str]:
        plan = self._plan

        def anchor(host: int, target: str, extra: str = "", plain: bool = False) -> str:
            text = self._text.title(rng)[: rng.randrange(8, 50)]
            href = self._href(rng, page, host, target, based, plain)
            kind = rng.random()
            if kind < 0.7:
                return f'<a href="{href}"{extra}>{text}</a>'
            if kind < 0.9:
                attributes = f'class="lnk c{rng.randrange(20)}" title="{text}" data-id="{rng.randrange(10**6)}"'
                return f'<a {attributes} href="{href}"{extra}><span>{text}</span></a>'
            return f"<A HREF='{href}'{extra}>{text}</A>"

        def one_of(extras: list[Extra], extra: str = "") -> str:
            chosen = extras[rng.randrange(len(extras))]
            return anchor(chosen.host, chosen.target, extra, plain=True)

        own = plan.of_host[page.host]
        links = [anchor(child.host, child.target, plain=True) for child in page.children]
        wanted = max(5, int(rng.lognormvariate(math.log(plan.shape.links), 0.5)))
        while len(links) < wanted:
            x = rng.random()
            if x < 0.12:
                to = plan.pages[rng.randrange(len(plan.pages))]
                links.append(anchor(to.host, to.target))
            elif x < 0.9:
                to = own[rng.randrange(len(own))]
                links.append(anchor(to.host, to.target))
            elif x < 0.915:
                links.append(one_of(plan.dead))
            elif x < 0.93:
                links.append(one_of(plan.private))
            elif x < 0.95:
                links.append(one_of(plan.nofollow, ' rel="nofollow noopener"'))
            elif x < 0.965:
                links.append(one_of(plan.images))
            elif x < 0.98:
                links.append(one_of(plan.papers))
            elif x < 0.99:
                links.append(one_of(plan.downloads))
            else:
                to = own[rng.randrange(len(own))]
                links.append(anchor(to.host, to.target, ' rel="nofollow"'))
        rng.shuffle(links)
        return links

    def _href(self, rng: random.Random, page: Page, host: int, target: str, based: bool, plain: bool) -> str:
        """One spelling of a link from `page`; `plain` leaves the target as it is."""
        x = rng.random()
        if not plain:
            if x < 0.004:
                target += ("&" if "?" in target else "?") + rng.choice(_TRACKERS)
            elif x < 0.007 and "?" not in target:
                target = "/go" + target  # answered with a redirect to the rest
            elif x < 0.010 and target.startswith("/view?"):
                target = target.replace("?id=", "?lang=en&id=").removesuffix("&lang=en")
            elif x < 0.090:
                target += f"#s{rng.randrange(9)}"
        y = rng.random()
        origin = self._plan.origin(host)
        if host != page.host:
            if y < 0.1:
                return origin.removeprefix("http:") + escape(target)
            if y < 0.12:
                return origin.upper().replace("HTTP", "http") + escape(target)
            return origin + escape(target)
        if y < 0.25:
            return origin + escape(target)
        if y < 0.50 and not based:
            return escape(relative(page.target, target))
        if y < 0.51:
            return f" {escape(target)} "
        return escape(target)

    # ---------------------------------------------------------------- blocks

    def _head(self, rng: random.Random, page: Page, title: str, based: bool) -> str:
        name, origin = self._plan.hosts[page.host], self._plan.origin(page.host)
        article = (
            f'{{"@context":"https://schema.org","@type":"Article","headline":"{title}","url":"{origin}{page.target}"}}'
        )
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f"<title>{title} | {name}</title>\n"
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="description" content="{self._text.title(rng)}">\n'
            f'<meta property="og:title" content="{title}">\n'
            f'<link rel="canonical" href="{origin}{escape(page.target)}">\n'
            '<link rel="stylesheet" href="/static/main.css?v=12">\n'
            + (f'<base href="{origin}/">\n' if based else "")
            + ('<meta name="robots" content="noindex, nofollow">\n' if page.nofollow else "")
            + f'{_STYLE}{_SCRIPT}\n<script type="application/ld+json">{article}</script>\n'
            f'</head>\n<body class="page p{page.number % 7}">\n'
        )

    def _block(self, rng: random.Random, inline: list[str], full: bool) -> str:
        """One block of the page's body; a paragraph takes a link of `inline` with it. `full`: paragraphs only."""
        x = rng.random()
        if x < 0.62 or full:
            text = self._text.paragraph(rng)
            if inline:
                text += f" {inline.pop()} {self._sentences[rng.randrange(500)]}"
            return f'<p class="c{rng.randrange(20)}">{text}</p>\n'
        kinds: tuple[tuple[float, Callable[[random.Random], str]], ...] = (
            (0.70, lambda rng: f'<h2 id="s{rng.randrange(9)}">{self._text.title(rng)}</h2>\n'),
            (0.76, self._figure),
            (0.84, self._list),
            (0.90, self._table),
            (0.97, self._card),
            (1.00, self._code),
        )
        return next(block for limit, block in kinds if x < limit)(rng)

    def _figure(self, rng: random.Random) -> str:
        return (
            f'<figure class="media"><img loading="lazy" src="/static/img-{rng.randrange(999)}.png" '
            f'alt="{self._text.title(rng)}" width="640" height="480">'
            f"<figcaption>{self._text.title(rng)}</figcaption></figure>\n"
        )

    def _list(self, rng: random.Random) -> str:
        items = "".join(f"<li>{self._text.title(rng)}</li>" for _ in range(rng.randrange(3, 9)))
        return f'<ul class="list">{items}</ul>\n'

    def _table(self, rng: random.Random) -> str:
        rows = "".join(
            f"<tr><td>{self._text.title(rng)}</td><td>{rng.randrange(10**5)}</td><td>{rng.random():.3f}</td></tr>"
            for _ in range(rng.randrange(3, 12))
        )
        return f'<table class="t"><tbody>{rows}</tbody></table>\n'

    def _card(self, rng: random.Random) -> str:
        return (
            f'<div class="card"><div class="card-body c{rng.randrange(20)}"><div class="hd">'
            f'<img src="/static/av-{rng.randrange(99)}.png" alt=""><b>{self._text.title(rng)}</b>'
            f'<time datetime="2026-01-0{1 + rng.randrange(9)}">today</time></div>'
            f'<div class="bd"><p>{self._text.paragraph(rng)}</p></div></div></div>\n'
        )

    @staticmethod
    def _code(rng: random.Random) -> str:
        lines = "if (a<b && c>d) { x = y[i]; }\n" * rng.randrange(3, 12)
        return f"<pre><code>{html.escape(lines)}</code></pre>\n"

    def _header(self, host: int) -> str:
        titles = self._text.titles
        items = "".join(
            f'<li class="nav-item"><a class="nav-link c{index % 9}" href="{escape(page.target)}">'
            f"{titles[page.number % len(titles)][:18]}</a></li>"
            for index, page in enumerate(self._plan.of_host[host][:25])
        )
        return (
            '<header id="top"><div class="wrap"><a class="logo" href="/">'
            f'<img src="/static/logo.svg" alt="{self._plan.hosts[host]}"></a>'
            f'<nav role="navigation"><ul class="menu">{items}</ul></nav>'
            '<form action="/search" method="get"><input name="q" type="text"><button>Go</button></form></div></header>'
        )

    def _footer(self, host: int) -> str:
        titles, hosts = self._text.titles, self._plan.hosts
        near = [(host + step) % len(hosts) for step in range(1, 7)]
        items = "".join(f'<li><a href="{self._plan.origin(other)}/">{hosts[other]}</a></li>' for other in near)
        items += "".join(
            f'<li><a href="{escape(page.target)}">{titles[(page.number + 9) % len(titles)][:22]}</a></li>'
            for page in self._plan.of_host[host][:8]
        )
        return (
            f'<footer class="site-footer"><ul>{items}<li><a rel="nofollow" href="/private/login.html">Sign in</a></li>'
            '<li><a href="mailto:info@example.test">Mail</a></li><li><a href="javascript:void(0)">Top</a></li>'
            f'<li><a href="tel:+123">Call</a></li></ul><p>&copy; 2026 {hosts[host]}</p></footer>'
        )
