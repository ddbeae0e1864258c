"""What a page asks of robots: robots meta tags, X-Robots-Tag, rel. No standard exists; as search engines read them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
_RULES = frozenset(
    (
        *("all", "index", "follow", "none", "noindex", "nofollow", "noarchive", "nocache", "nosnippet", "noimageindex"),
        *(
            "notranslate",
            "nositelinkssearchbox",
            "indexifembedded",
            "noodp",
            "noydir",
            "noai",
            "noimageai",
            "nopagereadaloud",
        ),
        *_VALUED,
    )
)
_AGENT = re.compile(r"([a-z*][^\s:,]*)\s*:\s*(.*)", re.DOTALL)


def directives(values: Iterable[str], token: str) -> tuple[bool, bool]:
    """Sum up (noindex, nofollow) over all fields and tags.

    Rules count when they stand for everybody or behind the name of the product `token`; a name holds for the rest of
    its value. Negative rules add up: nothing takes one back.
    """
    noindex = nofollow = False
    for value in values:
        ours = True
        for part in value.lower().split(","):
            rule = part.strip()
            if (match := _AGENT.fullmatch(rule)) and _is_agent(match[1], match[2]):
                ours = match[1].partition("/")[0] in ("*", token.lower())
                rule = match[2].strip()
            if ours:
                noindex |= rule in ("noindex", "none")
                nofollow |= rule in ("nofollow", "none")
    return noindex, nofollow


def _is_agent(name: str, rest: str) -> bool:
    """Tell `examplebot: noindex` from `max-snippet: 20`, and from the half of a date: a rule has to follow."""
    return name not in _RULES and rest.partition(":")[0].strip() in _RULES


def has_nofollow(rel: str | None) -> bool:
    """Whether a link's `rel` contains the link type nofollow (HTML 4.6.7); search engines let commas separate, too."""
    return rel is not None and "nofollow" in rel.lower().replace(",", " ").split()
