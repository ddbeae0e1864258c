"""What header fields say of a page that its markup may say, too: its language, its canonical URL. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from crawler.urls import resolve, too_long

MAX_LANG = 64
"""Characters kept of a language tag."""

# A link of a Link field and its parameters (RFC 8288 3).
_PARAMETER = r"""\s*;\s*[^\s"=;,<>]+(?:\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s",;]*))?"""
_LINK = re.compile(rf"<([^<>]*)>((?:{_PARAMETER})*)")
_NAMED = re.compile(r"""([^\s"=;]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*))""")


def language(content: str | None) -> str | None:
    """The language that a Content-Language names, as a field (RFC 9110 8.5) or in a meta element (HTML 4.2.5.3); None
    where it names several, which says for whom a page is and not what it is written in."""
    tags = content.split() if content and "," not in content else ()
    return tags[0][:MAX_LANG] if len(tags) == 1 else None


def canonical(fields: Iterable[str], url: str) -> str | None:
    """The canonical URL (RFC 6596) that the Link fields of an answer from `url` name; None when they name none."""
    for field in fields:
        for target, parameters in _LINK.findall(field) if "canonical" in field.lower() else ():
            named: dict[str, str] = {}
            for name, quoted, plain in _NAMED.findall(parameters):
                named.setdefault(name.lower(), quoted or plain)
            if "canonical" in named.get("rel", "").lower().split() and "anchor" not in named:
                return canonical_url(target.encode("latin-1", "replace").decode("utf-8", "replace"), url)
    return None


def canonical_url(href: str | None, base: str) -> str | None:
    """A canonical URL as it is recorded; None for what is of no use."""
    found = resolve(href, base) if href else None
    return None if found is None or too_long(found) else found
