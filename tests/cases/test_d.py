"""Markup of the kinds that have crashed parsers."""

from __future__ import annotations

import pytest

from crawler.parser import Parser

LINK = "<a href=/x>x</a>"


@pytest.mark.case("D02")
async def test_markup_that_has_crashed_parsers_is_parsed_and_its_links_are_found() -> None:
    pages = [
        f"<svg><template></template></svg>{LINK}",
        f"<math><template><svg><template></math>{LINK}",
        f"<!-- a=b -->{LINK}<!-- href=/no --><?php href=/no ?>",
        f"<select><option><select><option><div>{LINK}</select>",
        f"<table><select><tr><td><select></table>{LINK}",
        f"<frameset><template><frame></template></frameset><noframes>{LINK}</noframes>{LINK}",
        f"<a:b xlink:href=/no :not(x)=1>{LINK}",
    ]
    parser = Parser()
    try:
        await parser.start()
        for page in pages:
            found = await parser.parse("https://site.example/", "text/html", page.encode(), [], "bot")
            assert not found.failed, page
            assert {link.url for link in found.links} <= {"https://site.example/x"}, page
    finally:
        await parser.close()
