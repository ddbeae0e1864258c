"""Where a redirect leads. Pure."""

from __future__ import annotations

import re

from crawler import urls
from crawler.fetched import Response

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def redirect_target(response: Response) -> str | None:
    """The wire URL a redirect leads to, resolved against the page; None when there is none that can be requested.

    Of several Location fields the first counts (RFC 9110 10.2.2). Raw bytes beyond ASCII are percent-encoded one by
    one, whatever encoding the server meant.
    """
    location = response.header(b"location")
    if not location:
        return None
    return urls.resolve(_NOT_ASCII.sub(lambda match: f"%{ord(match[0]):02X}", location), response.url)
