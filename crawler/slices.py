"""A large page in slices, each parsed by itself, so that its tree stays small whatever the page is made of.

A tree takes up to a hundred times the size of its markup. Links, directives and titles need little of what is around
them; a slice ends where a tag begins, outside of comments and of elements whose content is no markup, or inert.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

SLICE = 512 * 1024
"""Characters of a slice; it is longer where there is no place to cut. Hardly a page is as large."""

_HOLDS_A_TAG = r"""[ \t\r\n]*+(?:"[^"<]*+<|'[^'<]*+<)"""
"""What follows the `=` of an attribute that has a `<` in its value."""

_WHOLE = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(script|style|textarea|title|xmp|iframe|noembed|noframes|template|frameset|svg)\b.*?(?:</\1|\Z)"
    # A tag with such an attribute, as far as that. The repeated group is not possessive: Python before 3.11.5 does not
    # match such a one right where its inside may go back. There is only one way to match it anyway.
    rf"|<[a-z][^<>=]*+(?:=(?!{_HOLDS_A_TAG})[^<>=]*+)*=(?={_HOLDS_A_TAG})"
    r"""[ \t\r\n]*+(?:"[^"]*+"?|'[^']*+'?)""",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"<[a-z/]", re.IGNORECASE)


def slices(text: str) -> Iterator[str]:
    """Cut markup; most is one slice. In time linear to its length."""
    start = 0
    limit = SLICE
    whole = _WHOLE.search(text) if len(text) > SLICE else None
    while limit < len(text) and (tag := _TAG.search(text, limit)) is not None:
        cut = tag.start()
        while whole is not None and whole.end() <= cut:
            whole = _WHOLE.search(text, whole.end())
        if whole is not None and whole.start() < cut:
            limit = whole.end()
            continue
        yield text[start:cut]
        start, limit = cut, cut + SLICE
    yield text[start:] if start else text
