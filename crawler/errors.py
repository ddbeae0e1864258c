"""Every error this package raises on purpose, as one tree.

A `CrawlerError` is for people: its text is one line that says what happened and what to do, and the command line
prints it as it stands. No exception of a library leaves the module that called the library.
"""

from __future__ import annotations

from enum import StrEnum


class CrawlerError(Exception):
    """Root of the tree. The command line prints the text and exits with 2."""


class UsageError(CrawlerError):
    """What the user asked for makes no sense: a bad option, a bad URL, a name that does not exist."""


class NotImportable(UsageError):
    """A module that a user named cannot be imported here; elsewhere it may."""


class CannotServe(CrawlerError):
    """This worker lacks what a crawl needs, such as the module of `--extract`; others may have it."""


class StateError(CrawlerError):
    """The crawl's state cannot serve."""


class StateMissing(StateError):
    """There is no state at this address, and the caller did not ask to make one."""


class StateMismatch(StateError):
    """What lies at the address is not a state this version understands. Fatal when opening; nothing was changed."""


class StateUnavailable(StateError):
    """The state did not answer, or its answer was lost. The outcome is unknown; every port method may be repeated."""


class StoreError(CrawlerError):
    """The archive's store cannot be used."""


class StoreUnavailable(StoreError):
    """The store did not take the bytes (network, full disk, no right). Nothing was acknowledged; repeat the call."""


class FailureKind(StrEnum):
    """Why no HTTP answer came. Each kind has its own retry rule (see `retry.py`)."""

    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    RESET = "reset"
    PRIVATE = "private-address"
    URL = "url"


class FetchFailure(CrawlerError):
    """A request that ended without an HTTP answer.

    `kind` says why in a word, the text says it in a sentence that may be shown to a user and kept in a row.
    """

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
