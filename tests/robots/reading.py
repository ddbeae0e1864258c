"""Short ways to ask what a file says."""

from __future__ import annotations

from crawler.robots import Robots

SITE = "https://site.example"


def parse(text: str | bytes, token: str = "FooBot") -> Robots:
    return Robots.parse(text.encode() if isinstance(text, str) else text, token)


def allowed(text: str | bytes, path: str, token: str = "FooBot") -> bool:
    return parse(text, token).allowed(SITE + path)
