"""Who a crawl says it is: the User-Agent and From fields (RFC 9110 10.1), and the product token. Pure."""

from __future__ import annotations

import re

from crawler import __version__
from crawler.errors import UsageError

PROJECT_URL = "https://github.com/crawler-project/crawler"

MAX_CONTACT = 300
"""Characters of a contact: it goes out with every request."""

# A product (RFC 9110 10.1.5), then anything printable. Sites are used to liberties behind the first product.
_USER_AGENT = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+(?:[/ (][\x20-\x7e]*)?(?<! )")
_COMMENT = re.compile(r"/| *\(")
_MAIL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
# Without what would end the comment of the User-Agent field that it stands in.
_URL = re.compile(r"https?://[A-Za-z0-9\[][^\s()<>\"\\\x00-\x20\x7f-\U0010ffff]*", re.IGNORECASE)


def default_user_agent(contact: str = "") -> str:
    """The User-Agent field unless the user says another: product, version, and where to complain."""
    return f"crawler/{__version__} (+{contact or PROJECT_URL})"


def product_token(user_agent: str) -> str:
    """What robots.txt groups are matched with (RFC 9309 2.2.1): the user agent up to the first `/` or comment."""
    return _COMMENT.split(user_agent, maxsplit=1)[0].strip()


def from_field(contact: str) -> str:
    """The From field (RFC 9110 10.1.2): a contact that is a mail address; "" for any other."""
    return contact if _MAIL.fullmatch(contact) else ""


def check_identity(user_agent: str, contact: str) -> None:
    """Raise UsageError for what must not go out as a header."""
    known = not contact or _MAIL.fullmatch(contact) or _URL.fullmatch(contact)
    if not known or len(contact) > MAX_CONTACT:
        raise UsageError(
            f"--contact {contact[:80]!r}: give a mail address or a URL, for example you@example.com or "
            "https://example.com/bot"
        )
    if _USER_AGENT.fullmatch(user_agent) is None:
        raise UsageError(
            f"--user-agent {user_agent[:80]!r}: begin with a product name in printable ASCII, for example "
            "'ExampleBot/1.0 (+https://example.com/bot)'"
        )
