"""Sites that are linked as the model of `crawler cost` supposes: hosts of one size, a navigation, random links besides.

What the model is measured against should differ from it in what the fleet does, not in how the pages are linked.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import NamedTuple

from crawler.cost.walk import ABROAD, navigation

WORDS = (
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetur",
    "adipiscing",
    "elit",
    "sed",
    "do",
    "eiusmod",
    "tempor",
)


class Linked(NamedTuple):
    """A number of hosts with so many pages each, and so many links on each page; `listed`: all are in sitemaps."""

    hosts: int
    size: int
    links: int
    port: int
    listed: bool = False

    @property
    def pages(self) -> int:
        return self.hosts * self.size

    def url(self, page: int) -> str:
        """Pages are numbered through; the first of a host is its start page."""
        host, number = divmod(page, self.size)
        return f"http://h{host:03d}.localhost:{self.port}/{f'{number}.html' if number else ''}"


def write(sites: Linked, folder: Path) -> Path:
    """Write them anew, a folder a host."""
    shutil.rmtree(folder, ignore_errors=True)
    choose = random.Random(7)
    fixed = navigation(sites.links)
    for page in range(sites.pages):
        host, number = divmod(page, sites.size)
        home = page - number
        links = list(range(home, home + min(sites.size, fixed)))
        for _ in range(sites.links - fixed):
            abroad = choose.random() < ABROAD
            links.append(choose.randrange(sites.pages) if abroad else home + choose.randrange(sites.size))
        items = "".join(f'<li><a href="{sites.url(link)}">{choose.choice(WORDS)}</a></li>\n' for link in links)
        text = " ".join(choose.choices(WORDS, k=800))
        where = folder / f"h{host:03d}.localhost"
        where.mkdir(parents=True, exist_ok=True)
        (where / (f"{number}.html" if number else "index.html")).write_text(
            f"<!doctype html><title>Page {page}</title><ul>{items}</ul><p>{text}</p>"
        )
        if not number:
            (where / "robots.txt").write_text(_robots(sites, page))
            (where / "sitemap.xml").write_text(_sitemap(sites, page))
    return folder


def _robots(sites: Linked, start: int) -> str:
    return "User-agent: *\nAllow: /\n" + (f"\nSitemap: {sites.url(start)}sitemap.xml\n" if sites.listed else "")


def _sitemap(sites: Linked, start: int) -> str:
    rows = "".join(f"<url><loc>{sites.url(page)}</loc></url>\n" for page in range(start, start + sites.size))
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{rows}</urlset>\n'
