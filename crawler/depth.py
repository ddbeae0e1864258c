"""A limit on nesting, applied before a page is parsed.

Building a tree costs the square of its depth: 200 kB of nested divs take seconds. Browsers stop nesting at 512 and
put what follows beside it. The same is done here by leaving out the tags that would nest deeper, which keeps the
text and the links, so that a deep page is parsed like any other. The scan knows tags and not the tree: what it is
blind to (markup that the tree builder nests by itself) runs into the parser's time limit.
"""

from __future__ import annotations

import re

LIMIT = 512
CHUNK = 2048

FEW_TAGS = 4096
"""Tags in so small a number cost less than a second however they nest, and most pages have fewer: no look at them."""

# Elements that hold no others, or whose next sibling closes them: they pile up without nesting.
_FLAT = re.compile(
    r"""area|base|basefont|bgsound|br|col|embed|frame|hr|img|input|keygen|link|meta|param|source|track|wbr
      | html|head|body|p|li|dt|dd|option|optgroup|tr|td|th|thead|tbody|tfoot|colgroup|caption|rp|rt|rb|rtc
      | a|nobr|button|form|h[1-6]|select""",
    re.VERBOSE,
)

# Comments and elements whose content is text are stepped over whole.
_TAG = re.compile(
    r"""<!--.*?(?:-->|\Z)
      | <(script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</\1|\Z)
      | <(/?)([a-z][^\s/><]*)[^<>]*>?""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def capped(text: str) -> str:
    """Return the markup without the tags that nest deeper than LIMIT; the same object when there are none."""
    return _cut(text) if _may_be_deep(text) else text


def _may_be_deep(text: str) -> bool:
    """Count start tags against end tags, chunk by chunk: cheap, and errs on the side of True."""
    if text.count("<") <= FEW_TAGS:
        return False
    depth = 0
    for start in range(0, len(text), CHUNK):
        ends = text.count("</", start, start + CHUNK)
        starts = text.count("<", start, start + CHUNK) - ends
        if depth + starts > LIMIT // 2:
            return True
        depth = max(0, depth + starts - ends)
    return False


def _cut(text: str) -> str:
    kept: list[str] = []
    position = depth = 0
    open_tags: dict[str, int] = {}
    for match in _TAG.finditer(text):
        name = match[3]
        if name is None or _FLAT.fullmatch(name := name.lower()):
            continue
        if not match[2]:
            depth += 1
            open_tags[name] = open_tags.get(name, 0) + 1
            surplus = depth > LIMIT
        else:
            if not open_tags.get(name):
                continue  # an end tag without its start tag closes nothing
            surplus = depth > LIMIT
            depth -= 1
            open_tags[name] -= 1
        if surplus:
            kept.append(text[position : match.start()])
            position = match.end()
    return "".join(kept) + text[position:] if kept else text
