"""A lease's token: what settling it needs to know besides the lease itself."""

from __future__ import annotations

import hashlib

import msgspec

from crawler.model import Failure, Lease
from crawler.state.aws.records import page_key

_failures = msgspec.json.Decoder(tuple[Failure, ...])


class Ticket(msgspec.Struct, frozen=True, gc=False):
    """`receipt` is the message's on its queue. `run` is the crawl's, so that a lease of a crawl that was purged ends
    nothing of a later crawl of that name. `failures` came with the message, and go on with the next."""

    receipt: str
    run: str
    failures: tuple[Failure, ...] = ()

    @property
    def token(self) -> str:
        history = msgspec.json.encode(self.failures).decode() if self.failures else ""
        return f"{self.receipt} {self.run} {history}"

    @property
    def stamp(self) -> str:
        """Names the lease in the record that it finished."""
        return hashlib.sha256(self.receipt.encode()).hexdigest()[:16]


def ticket(lease: Lease) -> Ticket:
    """Read a lease's token."""
    receipt, run, history = lease.token.split(" ", 2)
    return Ticket(receipt, run, _failures.decode(history) if history else ())


def pk(lease: Lease) -> str:
    """Key of the record of a lease's page."""
    return page_key(lease.crawl, ticket(lease).run, lease.digest)
