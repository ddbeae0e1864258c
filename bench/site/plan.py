"""Which pages there are, which page links to each for the first time, and what a polite crawler must leave alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from bench.site.text import Text

SECTIONS = (
    "news",
    "guides",
    "reviews",
    "store",
    "docs",
    "forum",
    "blog",
    "events",
    "people",
    "places",
    "science",
    "culture",
)


@dataclass(frozen=True)
class Shape:
    """What makes one site differ from another; the same shape is the same bytes.

    `links` is the median of those in a page's text, besides its navigation. `skew` is the exponent of Zipf's law, by
    which hosts get their pages; 0: all the same number.
    """

    pages: int = 5000
    hosts: int = 20
    port: int = 8099
    seed: int = 7
    links: int = 29
    skew: float = 1.15


@dataclass(eq=False, slots=True)
class Page:
    """An HTML page. `target` is its path and query, `file` where it lies below its host's folder."""

    number: int
    host: int
    target: str
    file: str
    nofollow: bool = False
    depth: int = 0
    children: list[Page] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Extra:
    """A URL that is no page of the site: a file, a dead link, or a page that must not be fetched."""

    host: int
    target: str


class Plan:
    """The site's URLs. Hosts get pages by Zipf's law; the pages of a host are a random tree below its start page."""

    def __init__(self, shape: Shape, rng: random.Random, text: Text) -> None:
        self.shape = shape
        self.hosts = [f"h{number:02d}.localhost" for number in range(shape.hosts)]
        weights = [1 / (number + 1) ** shape.skew for number in range(shape.hosts)]
        counts = [max(3, int(shape.pages * weight / sum(weights))) for weight in weights]
        counts[0] += shape.pages - sum(counts)
        self.of_host: list[list[Page]] = []
        self.pages: list[Page] = []
        for host, count in enumerate(counts):
            pages = [self._page(rng, text, host, index) for index in range(count)]
            self.of_host.append(pages)
            self.pages += pages
        for number, page in enumerate(self.pages):
            page.number = number
        for pages in self.of_host:
            self._grow(rng, pages)
        count = shape.pages
        self.private = self._extras(rng, max(5, count // 50), "/private/doc-{}.html")
        self.nofollow = self._extras(rng, max(5, count // 50), "/nf/page-{}.html")
        self.images = self._extras(rng, max(4, count // 50), "/static/img-{}.png")
        self.papers = self._extras(rng, max(4, count // 100), "/files/paper-{}.pdf")
        self.downloads = self._extras(rng, max(4, count // 200), "/download/{}")  # PDF without a telling name
        self.dead = self._extras(rng, max(4, count // 50), "/gone/{}.html")

    def origin(self, host: int) -> str:
        return f"http://{self.hosts[host]}:{self.shape.port}"

    def url(self, page: Page) -> str:
        return self.origin(page.host) + page.target

    @property
    def seed(self) -> str:
        return self.url(self.pages[0])

    def _extras(self, rng: random.Random, count: int, target: str) -> list[Extra]:
        return [Extra(rng.randrange(self.shape.hosts), target.format(number)) for number in range(count)]

    @staticmethod
    def _page(rng: random.Random, text: Text, host: int, index: int) -> Page:
        section = SECTIONS[index % len(SECTIONS)]
        slug = "-".join(text.words[rng.randrange(60, 4000)] for _ in range(rng.randint(2, 6)))
        x = rng.random()
        if index == 0:
            return Page(0, host, "/", "index.html")
        if index <= len(SECTIONS):
            section = SECTIONS[index - 1]
            return Page(0, host, f"/{section}/", f"{section}/index.html")
        if x < 0.08:
            return Page(0, host, f"/view?id={index}&lang=en", f"view/{index}.html")
        if x < 0.38:
            name = f"{section}/{slug}-{index}.html"
        elif x < 0.68:
            name = f"{section}/{2015 + index % 12}/{1 + index % 12:02d}/{slug}-{index}"
        elif x < 0.88:
            return Page(0, host, f"/{section}/{slug}-{index}/", f"{section}/{slug}-{index}/index.html")
        elif x < 0.98:
            name = f"p/{index}"
        else:
            return Page(0, host, f"/{section}/{slug}-caf%C3%A9-{index}.html", f"{section}/{slug}-café-{index}.html")
        return Page(0, host, f"/{name}", name)

    def _grow(self, rng: random.Random, pages: list[Page]) -> None:
        """Give each page of a host its parent: the sections hang on the start page, that on the first host's."""
        start = pages[0]
        if start is not self.pages[0]:
            self._adopt(self.pages[0], start)
        for index, page in enumerate(pages[1:], 1):
            if index <= len(SECTIONS):
                self._adopt(start, page)
                continue
            parent = pages[rng.randrange(0, index)]
            while parent.nofollow:
                parent = pages[rng.randrange(0, index)]
            page.nofollow = rng.random() < 0.01  # stays a leaf, so that nothing hangs on its links
            self._adopt(parent, page)

    @staticmethod
    def _adopt(parent: Page, child: Page) -> None:
        parent.children.append(child)
        child.depth = parent.depth + 1
