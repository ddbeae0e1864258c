"""Header fields that say of a page what its markup may say, too."""

from __future__ import annotations

import pytest

from crawler.page_fields import canonical, language

URL = "https://example.com/a/b.pdf?x"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        (['<https://example.com/c>; rel="canonical"'], "https://example.com/c"),
        (["</c>;REL=Canonical"], "https://example.com/c"),
        (['<c,d>; title="a, <b>; rel=next"; rel=canonical'], "https://example.com/a/c,d"),
        (['</s>; rel=preload; as=style, </c>; rel="x canonical"'], "https://example.com/c"),
        (["</s>; rel=preload", "</c>; rel=canonical", "</d>; rel=canonical"], "https://example.com/c"),
        (["<http://u:p@example.com/c#f>; rel=canonical"], "http://example.com/c"),
        (["</caf\xc3\xa9>; rel=canonical"], "https://example.com/caf%C3%A9"),
        # other links, other contexts, nothing of use
        (["</c>; rel=canonical-x", "</c>; rel=next; title=canonical", "</c>; rel=next; rel=canonical"], None),
        (['</c>; rel=canonical; anchor="/other"'], None),
        (["</c; rel=canonical", "rel=canonical", "<javascript:x>; rel=canonical", "<>; rel=canonical"], None),
        (["<http://[>; rel=canonical"], None),
        (["</" + "x" * 9000 + ">; rel=canonical"], None),
        ([], None),
    ],
)
def test_a_canonical_url_in_a_link_field(fields: list[str], found: str | None) -> None:
    assert canonical(fields, URL) == found


def test_a_hostile_link_field_is_read_in_no_time() -> None:
    assert canonical(["<a>" + '; a="' * 20_000 + "canonical", "<" * 60_000 + "canonical", "<a>;" * 15_000], URL) is None


@pytest.mark.parametrize(
    ("field", "found"),
    [("de-AT", "de-AT"), (" fr ", "fr"), ("de, en", None), ("", None), (None, None), ("x" * 100, "x" * 64)],
)
def test_the_language_in_a_field(field: str | None, found: str | None) -> None:
    assert language(field) == found
