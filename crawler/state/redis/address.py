"""Addresses: `redis://[[user]:password@]host[:port][/database][?name=NAME]`, `rediss://` for TLS."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from crawler.errors import UsageError

DEFAULT_NAME = "crawler"
DEFAULT_PORT = 6379

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TLS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs"}


class Address(msgspec.Struct, frozen=True):
    """Where a state lies. `url` is for the client and holds the password; `shown` is for people and does not."""

    url: str
    name: str
    shown: str


def parse(text: str) -> Address:
    """Read a `--state` address. Raises UsageError."""
    form = "redis://host:6379/0, rediss://user:password@host:6379/0, with ?name=NAME for one state of several"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host, port, parts = None, 0, urlsplit("")
    database = parts.path.strip("/") or "0"
    if parts.scheme not in ("redis", "rediss") or not host or not database.isdecimal():
        raise UsageError(f"--state: {_without_password(text)!r} is no Redis address: use {form}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    name = options.pop("name", DEFAULT_NAME)
    if not _NAME.fullmatch(name):
        raise UsageError(f"--state: name={name!r} is not a name: use up to 64 letters, digits, '_', '.', '-'")
    if unknown := sorted(set(options) - (_TLS if parts.scheme == "rediss" else set())):
        raise UsageError(f"--state: a Redis address has no option {unknown[0]!r}: use {form}")
    url = parts._replace(path=f"/{database}", query=urlencode(options), fragment="").geturl()
    literal = f"[{host}]" if ":" in host else host
    suffix = "" if name == DEFAULT_NAME else f"?name={name}"
    return Address(url, name, f"{parts.scheme}://{literal}:{port}/{database}{suffix}")


def _without_password(text: str) -> str:
    return re.sub(r"//[^/]*@", "//…@", text)
