"""What to tell people about a request that got no answer: its kind, and a sentence in the words of the field.

The texts of libraries name classes, numbers and options that mean nothing to a reader of a crawl's rows.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import ssl
from collections.abc import Sequence

import aiohttp

from crawler.errors import FailureKind, FetchFailure
from crawler.guard import Refused, refusal

log = logging.getLogger(__name__)

_WORDS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.ECONNABORTED: "connection broken off",
    errno.EPIPE: "connection broken off",
    errno.ETIMEDOUT: "connection timed out",
    errno.ENETUNREACH: "network unreachable",
    errno.EHOSTUNREACH: "host unreachable",
    errno.EADDRNOTAVAIL: "no local address to connect from",
    errno.EMFILE: "this process has too many files open",
    errno.ENFILE: "this machine has too many files open",
}
_ERRNO = re.compile(r"\[Errno (\d+)\]")

# What OpenSSL says when the first bytes of the other side are no TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "BAD_PROTOCOL")


def failure(error: Exception, *, secure: bool, tried: Sequence[str], answered: bool) -> FetchFailure:
    """The failure for whatever was raised on the way to the headers.

    `secure`: the request was to go by TLS; `tried`: addresses that a connection was tried to; `answered`: the server
    had begun to answer.
    """
    if isinstance(error, aiohttp.ClientConnectorError):
        return _not_connected(error, secure, places(tried))
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        return FetchFailure(FailureKind.TLS, _tls(error))
    if isinstance(error, aiohttp.InvalidURL | UnicodeError):
        return FetchFailure(FailureKind.URL, "its host has a name that cannot be looked up")
    if isinstance(error, aiohttp.ServerDisconnectedError):
        when = "within the header section" if answered else "without an answer"
        return FetchFailure(FailureKind.RESET, f"the server closed the connection {when}")
    if isinstance(error, OSError):
        return FetchFailure(FailureKind.RESET, _words(error) or "the connection broke")
    log.debug("a failure without a name", exc_info=error)
    return FetchFailure(FailureKind.PROTOCOL, "the answer is no HTTP")


def places(tried: Sequence[str]) -> str:
    """The addresses in brackets, each once, for the end of a sentence."""
    return f" ({', '.join(dict.fromkeys(tried))})" if tried else ""


def _not_connected(error: aiohttp.ClientConnectorError, secure: bool, where: str) -> FetchFailure:
    cause = error.os_error
    if isinstance(cause, Refused):
        return refusal(error.host, str(cause))
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return FetchFailure(FailureKind.DNS, f"{error.host} has no address: {_lookup(cause)}")
    if isinstance(error, aiohttp.ClientSSLError):
        problem = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else cause
        return FetchFailure(FailureKind.TLS, _tls(problem) + where)
    if secure and isinstance(cause, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        # Only what comes after the connection can end like this.
        return FetchFailure(FailureKind.TLS, "the server broke off the TLS handshake" + where)
    return FetchFailure(FailureKind.CONNECT, (_words(cause) or "no connection") + where)


def _lookup(error: OSError) -> str:
    return _within(error.strerror or "the lookup failed")


def _within(sentence: str) -> str:
    """A sentence as it goes on after a colon."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _tls(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = error.verify_message.rstrip(".") or "nobody vouches for it"
        return f"the certificate is not valid: {_within(text)}"
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    if reason in _NO_TLS:
        return "the server does not speak TLS on this port"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not reason:
        return "the server broke off the TLS handshake"
    return f"the TLS handshake failed: {reason.replace('_', ' ').lower()}"


def _words(error: OSError) -> str:
    """In words; of several failures (one an address) each kind once."""
    numbers = [error.errno] if error.errno else [int(number) for number in _ERRNO.findall(str(error))]
    return " and ".join(dict.fromkeys(_WORDS.get(number) or os.strerror(number).lower() for number in numbers))
