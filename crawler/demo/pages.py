"""The demo site's HTML: text, navigation, and every link in one of the spellings that the web uses for it."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Sequence
from urllib.parse import unquote

from crawler.demo.plan import HOSTS, Kind, Place, Trait, Via

_SUBJECTS = ("the harbour", "a keeper", "the old mill", "every visitor", "the ferry", "our archive", "the council")
_VERBS = ("keeps", "remembers", "crosses", "maps", "repairs", "outlives", "measures", "follows")
_OBJECTS = ("the northern shore", "a row of lamps", "the tide tables", "the last train", "a quiet street", "the ledger")
_STYLE = "body{font:16px/1.5 serif;max-width:44em;margin:2em auto}nav a,footer a{margin-right:1em}"


class Pages:
    """Renders the pages of a plan as served on `port`."""

    def __init__(self, places: Sequence[Place], port: int, seed: int) -> None:
        self._port = port
        self._seed = seed
        self._pages = [place for place in places if place.kind is Kind.PAGE]
        self._of_host = {host: [page for page in self._pages if page.host == host] for host in HOSTS}

    def origin(self, host: str) -> str:
        return f"http://{host}:{self._port}"

    def render(self, page: Place) -> str:
        """The page's HTML, the same on every call."""
        rng = random.Random(f"{self._seed} {page.host} {page.target}")  # noqa: S311 - repeatable on purpose
        head: list[str] = []
        body: list[str] = []
        for place in page.links:
            element = _element(place, self._spelling(rng, page, place), page)
            (head if place.via in (Via.NEXT, Via.REFRESH, Via.SCRIPT) else body).append(element)
        neighbours = self._of_host[page.host]
        for _ in range(rng.randint(12, 26) - len(body)):
            to = rng.choice(neighbours) if rng.random() < 0.85 else rng.choice(self._pages)
            body.append(f'<a href="{self._spelling(rng, page, to)}">{html.escape(to.title)}</a>')
        rng.shuffle(body)
        return "\n".join(self._document(rng, page, head, body)) + "\n"

    def _document(self, rng: random.Random, page: Place, head: list[str], body: list[str]) -> list[str]:
        charset = "iso-8859-1" if page.trait is Trait.LATIN1 else "utf-8"
        base = f'<base href="{self.origin(page.host)}/news/">' if page.trait is Trait.BASE else ""
        robots = '<meta name="robots" content="nofollow">' if page.trait is Trait.NOFOLLOW else ""
        sections = self._of_host[page.host][1:6]
        navigation = "".join(f'<a href="{place.target}">{place.target.strip("/")}</a>' for place in sections)
        return [
            "<!DOCTYPE html>",
            '<html lang="en"><head>',
            f'<meta charset="{charset}">',
            f"<title>{html.escape(page.title)}</title>",
            base + robots,
            f'<link rel="canonical" href="{html.escape(self.origin(page.host) + page.target)}">',
            *head,
            f"<style>{_STYLE}</style></head><body>",
            f'<header><a href="/">{page.host}</a> <nav>{navigation}</nav></header>',
            f"<main><h1>{html.escape(page.title)}</h1>",
            *(f"<p>{_sentences(rng)} {element} {_sentences(rng)}</p>" for element in body),
            "</main><footer>",
            *(f'<a href="{self.origin(host)}/">{host}</a>' for host in HOSTS),
            '<a href="mailto:desk@example.com">Mail</a> <a href="tel:+123">Call</a>',
            '<a href="javascript:void(0)">Top</a>',
            "</footer></body></html>",
        ]

    def _spelling(self, rng: random.Random, page: Place, place: Place) -> str:
        """One of the ways to write the address of `place` on `page`, as the value of an attribute."""
        target = place.target
        extra = rng.random()
        if place.kind is Kind.PAGE and extra < 0.06:
            target += ("&" if "?" in target else "?") + rng.choice(
                ("utm_source=news&utm_medium=mail", "utm_campaign=q3")
            )
        elif "&lang=en" in target and extra < 0.5:
            target = target.replace("?id=", "?lang=en&id=").removesuffix("&lang=en")
        elif extra < 0.2:
            target += f"#part-{rng.randrange(9)}"
        if "%C3%A9" in target and rng.random() < 0.5:
            target = unquote(target)
        if page.trait is Trait.LATIN1:
            target = target.replace("%E9", "é")
        return html.escape(self._address(rng, page, place.host, target))

    def _address(self, rng: random.Random, page: Place, host: str, target: str) -> str:
        form = rng.random()
        if host != page.host or form < 0.2:
            named = host.upper() if form < 0.04 else host
            return f"//{named}:{self._port}{target}" if 0.1 < form < 0.2 else f"http://{named}:{self._port}{target}"
        if form < 0.5:
            return relative("/news/" if page.trait is Trait.BASE else page.target, target)
        return f" {target}\n" if form < 0.54 else target


def relative(source: str, target: str) -> str:
    """`target` (path and query) as a path-relative reference from the page at `source` (RFC 3986 4.2)."""
    folders = source.partition("?")[0].split("/")[1:-1]
    path = re.split(r"[?#]", target, maxsplit=1)[0]
    steps = path.split("/")[1:]
    shared = 0
    while shared < min(len(folders), len(steps) - 1) and folders[shared] == steps[shared]:
        shared += 1
    reference = "../" * (len(folders) - shared) + "/".join(steps[shared:])
    return (reference or "./") + target[len(path) :]


def _element(place: Place, address: str, page: Place) -> str:
    text = html.escape(place.title or place.target.strip("/"))
    if place.via is not Via.A:
        address = address.strip()
    if place.kind is Kind.NOFOLLOW and page.trait is not Trait.NOFOLLOW:
        return f'<a rel="nofollow noopener" href="{address}">{text}</a>'
    return {
        Via.A: f'<a href="{address}">{text}</a>',
        Via.AREA: f'<map name="m"><area shape="rect" coords="0,0,9,9" href="{address}" alt="{text}"></map>',
        Via.IFRAME: f'<iframe src="{address}" title="{text}"></iframe>',
        Via.NEXT: f'<link rel="next" href="{address}">',
        Via.NOSCRIPT: f'<noscript><a href="{address}">{text}</a></noscript>',
        Via.REFRESH: f'<meta http-equiv="refresh" content="30; url={address}">',
        Via.COMMENT: f'<!-- <a href="{address}">{text}</a> -->',
        Via.SCRIPT: f"<script>var old = '<a href=\"{address}\">{text}</a>';</script>",
        Via.FORM: f'<form action="{address}"><input name="q"><button>Search</button></form>',
        Via.IMAGE: f'<img src="{address}" alt="{text}">',
    }[place.via]


def _sentences(rng: random.Random) -> str:
    return " ".join(
        f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_OBJECTS)}.".capitalize()
        for _ in range(rng.randint(1, 4))
    )
