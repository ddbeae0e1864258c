"""The test data of the URL Standard, case by case; where we differ on purpose, it says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crawler.url_key import STANDARD
from crawler.urls import resolve

DATA = Path(__file__).parent / "data"

NOWHERE = "about:blank"
"""A base that helps no relative URL."""

NO_SUCH_NAME = {"http://./", "http://../", "http://foo.09../"}
"""Hosts with an empty label: URLs to the standard, but no name in DNS (RFC 1035 2.3.4)."""

CLAIMS_PUNYCODE = "xn--"
"""Labels that start so and are no punycode fail in the standard. We let DNS say whether there is such a name."""


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / name).read_text())
    return found


def wire(href: str | None) -> str | None:
    """What we make of a URL of the standard: http(s) only, no fragment, no user info."""
    if href is None or not href.startswith(("http://", "https://")):
        return None
    scheme, _, rest = href.partition("#")[0].partition("://")
    authority, slash, tail = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{tail}"


@pytest.mark.case("A04", "A10")
def test_links_are_parsed_as_the_standard_says() -> None:
    wrong = []
    for case in cases("urltestdata.json"):
        expected, found = wire(case["href"]), resolve(case["input"], case["base"] or NOWHERE)
        if case["href"] in NO_SUCH_NAME:
            expected = None
        if found != expected and not (expected is None and CLAIMS_PUNYCODE in case["input"].lower()):
            wrong.append((case, found))
    assert wrong == []


def test_the_key_of_every_case_is_stable_and_that_of_its_wire_url() -> None:
    seen = 0
    for case in cases("urltestdata.json"):
        url = resolve(case["input"], case["base"] or NOWHERE)
        if url is not None:
            seen += 1
            assert resolve(url, NOWHERE) == url
            key = STANDARD.key(url)
            assert STANDARD.key(key) == key
            assert STANDARD.key(case["href"] or url) == key
    assert seen > 200


@pytest.mark.case("A03")
@pytest.mark.parametrize("case", cases("toascii.json"), ids=lambda case: ascii(case["input"])[:40])
def test_hosts_become_ascii_as_the_standard_says(case: dict[str, Any]) -> None:
    found, expected = resolve(f"https://{case['input']}/x", NOWHERE), case["output"]
    if expected is not None and fits_dns(expected):
        assert found == f"https://{expected}/x"
    elif expected is not None or not case["input"].lower().startswith(CLAIMS_PUNYCODE):
        assert found is None


def fits_dns(host: str) -> bool:
    return len(host) <= 253 and all(0 < len(label) <= 63 for label in host.split("."))
