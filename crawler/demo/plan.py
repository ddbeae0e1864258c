"""The map of the demo site: which URLs exist, what each one is, and on which page each is first linked.

The map is a pure function of the number of pages and a seed. It knows how a polite crawler must treat every URL,
which makes it the truth that a crawl of the site is compared with.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

HOSTS = ("a.localhost", "b.localhost", "c.localhost")
OUTSIDE = "outside.localhost"
"""A host that pages link to and no seed names: out of scope, answered by the same server if somebody asks."""

SMALLEST = 150
"""Pages that the peculiar ones need beside them."""

_SHARES = (0.5, 0.3, 0.2)
_SECTIONS = ("news", "guides", "people", "harbour", "archive")
_WORDS = re.findall(
    r"[a-z]+",
    "amber anchor arch autumn barge beacon bell bridge canal cedar chart clay cliff cloud copper coral dune ember "
    "fern ferry field flint fog garden glass granite grove gull harbour hazel heron inlet island ivory jetty kelp "
    "lagoon lamp lantern ledge lichen lighthouse linen marble marsh meadow mill mist moor moss oak orchard otter "
    "pebble pier pine quarry quay rain reed reef ridge river rope sail sand shore signal slate spring stone storm "
    "tide timber tower trail valley wave weir wharf willow wind wood",
)


class Kind(StrEnum):
    """What a URL is, and so how a polite crawler with scope `host` treats it."""

    PAGE = "page"
    FILE = "file"
    REDIRECT = "redirect"
    MISSING = "missing"
    PRIVATE = "private"
    """Linked, but robots.txt disallows it: recorded as skipped, never fetched."""
    NOFOLLOW = "nofollow"
    """Linked only with nofollow, of the link or of the page: never followed."""
    HIDDEN = "hidden"
    """Written only where no link is: comments, scripts, forms, image sources."""
    OUTSIDE = "outside"
    """On a host that no seed names."""


class Trait(StrEnum):
    """What is unusual about a page."""

    BASE = "base"
    NOFOLLOW = "nofollow"
    LATIN1 = "latin1"
    GZIP = "gzip"
    CHUNKED = "chunked"
    FLAKY = "flaky"


class Via(StrEnum):
    """The element through which a URL is first linked."""

    A = "a"
    AREA = "area"
    IFRAME = "iframe"
    NEXT = "link rel=next"
    NOSCRIPT = "a in noscript"
    REFRESH = "meta refresh"
    COMMENT = "comment"
    SCRIPT = "script"
    FORM = "form"
    IMAGE = "img"


@dataclass(eq=False, slots=True)
class Place:
    """A URL of the site. `target` is its path and query in canonical form; `links` are the URLs first linked here."""

    host: str
    target: str
    kind: Kind = Kind.PAGE
    title: str = ""
    trait: Trait | None = None
    via: Via = Via.A
    to: Place | None = None
    links: list[Place] = field(default_factory=list)


def resource(target: str) -> str:
    """The canonical form of a request target of this site: without tracking parameters, the query in order."""
    path, _, query = target.partition("?")
    pieces = sorted(piece for piece in query.split("&") if piece and not piece.startswith(("utm_", "fbclid=")))
    return path + ("?" + "&".join(pieces) if pieces else "")


def plan(pages: int, seed: int) -> list[Place]:
    """Every URL of a site with `pages` HTML pages, the start pages of the hosts first. ValueError below SMALLEST."""
    if pages < SMALLEST:
        raise ValueError(f"the demo site needs {SMALLEST} pages or more")
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    counts = [int(pages * share) for share in _SHARES]
    counts[0] += pages - sum(counts)
    trees = [_tree(rng, host, count) for host, count in zip(HOSTS, counts, strict=True)]
    for tree in trees:
        _mark(rng, tree)
    outside = Place(OUTSIDE, "/", Kind.OUTSIDE)
    others = [outside]
    for tree, neighbour in zip(trees, trees[1:] + trees[:1], strict=True):
        others += _never_fetched(rng, tree)
        others += _other_answers(rng, tree)
        others += _redirects(rng, tree, neighbour, outside)
    return [tree[0] for tree in trees] + [page for tree in trees for page in tree[1:]] + others


def _tree(rng: random.Random, host: str, count: int) -> list[Place]:
    """The pages of a host, breadth first by section; each but the first is linked from an earlier one."""
    tree = [Place(host, "/", title=f"Welcome to {host}")]
    for number in range(1, count):
        section = _SECTIONS[number % len(_SECTIONS)]
        words = rng.sample(_WORDS, 3)
        top = number <= len(_SECTIONS)
        target = f"/{section}/" if top else _target(rng, section, "-".join(words), number)
        page = Place(host, target, title=" ".join(words).capitalize())
        tree[0 if top else rng.randrange(number)].links.append(page)
        tree.append(page)
    return tree


def _target(rng: random.Random, section: str, slug: str, number: int) -> str:
    shapes = {
        f"/{section}/{slug}-{number}.html": 30,
        f"/{section}/{2016 + number % 10}/{slug}-{number}": 30,
        f"/{section}/{slug}-{number}/": 20,
        f"/view?id={number}&lang=en": 12,
        f"/{section}/caf%C3%A9-{number}.html": 5,
        f"/private/press/{slug}-{number}.html": 3,  # allowed by a longer rule than the one that disallows /private/
    }
    return rng.choices(list(shapes), weights=list(shapes.values()))[0]


def _mark(rng: random.Random, tree: list[Place]) -> None:
    """Give some pages of a host their peculiarities, and some links another element than `a`."""
    leaves = [page for page in tree[6:] if not page.links]
    nofollow, latin1, gzipped, chunked = rng.sample(leaves, 4)
    nofollow.trait, latin1.trait, gzipped.trait, chunked.trait = Trait.NOFOLLOW, Trait.LATIN1, Trait.GZIP, Trait.CHUNKED
    latin1.title = "Café and crème brûlée"
    for page in rng.sample([page for page in tree[1:] if page.links], 2):
        page.trait = Trait.BASE
    for page in rng.sample([page for page in tree[6:] if page.trait is None], 3):
        page.trait = Trait.FLAKY
    elements = (Via.AREA, Via.IFRAME, Via.NEXT, Via.NOSCRIPT, Via.REFRESH)
    for page, via in zip(rng.sample(tree[6:], len(elements)), elements, strict=True):
        page.via = via


def _link(rng: random.Random, tree: list[Place], place: Place) -> Place:
    """Link a place from some page whose links count."""
    rng.choice([page for page in tree if page.trait is not Trait.NOFOLLOW]).links.append(place)
    return place


def _never_fetched(rng: random.Random, tree: list[Place]) -> Iterator[Place]:
    host = tree[0].host
    for number in range(4):
        yield _link(rng, tree, Place(host, f"/private/ledger-{number}.html", Kind.PRIVATE))
        yield _link(rng, tree, Place(host, f"/members/page-{number}.html", Kind.NOFOLLOW))
    yield _link(rng, tree, Place(host, "/news/?print=1", Kind.PRIVATE))
    for via in (Via.COMMENT, Via.SCRIPT, Via.FORM, Via.IMAGE):
        yield _link(rng, tree, Place(host, f"/hidden/{via}", Kind.HIDDEN, via=via))
    beyond = Place(host, "/beyond/nofollow.html", Kind.NOFOLLOW)
    next(page for page in tree if page.trait is Trait.NOFOLLOW).links.append(beyond)
    yield beyond
    yield _link(rng, tree, Place(OUTSIDE, f"/from-{host}.html", Kind.OUTSIDE))


def _other_answers(rng: random.Random, tree: list[Place]) -> Iterator[Place]:
    host = tree[0].host
    for target in ("/files/report.pdf", "/files/map.png", "/download/7"):
        yield _link(rng, tree, Place(host, target, Kind.FILE))
    for number in range(4):
        yield _link(rng, tree, Place(host, f"/gone/{number}.html", Kind.MISSING))
    # The query of a link is sent in the encoding of its page (URL Standard 4.4), so %E9 and not %C3%A9.
    word = Place(host, "/download/list?word=caf%E9", Kind.FILE)
    next(page for page in tree if page.trait is Trait.LATIN1).links.append(word)
    yield word


def _redirects(rng: random.Random, tree: list[Place], neighbour: list[Place], outside: Place) -> Iterator[Place]:
    host = tree[0].host
    vault = Place(host, "/private/vault.html", Kind.PRIVATE)
    twice = Place(host, "/old/twice-2", Kind.REDIRECT, to=rng.choice(tree[6:]))
    yield vault
    yield twice
    for target, to in (
        ("/old/page", rng.choice(tree[6:])),
        ("/old/neighbour", rng.choice(neighbour[6:])),
        ("/old/twice-1", twice),
        ("/old/vault", vault),
        ("/old/outside", outside),
    ):
        yield _link(rng, tree, Place(host, target, Kind.REDIRECT, to=to))
    # One page is reached through a redirect alone.
    moved = rng.choice([page for page in tree[6:] if not page.links and page.via is Via.A])
    redirect = Place(host, "/old/moved", Kind.REDIRECT, to=moved)
    parent = next(page for page in tree if moved in page.links)
    parent.links[parent.links.index(moved)] = redirect
    yield redirect
