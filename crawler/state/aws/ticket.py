"""A lease's token: what settling it needs to know besides the lease itself."""

from __future__ import annotations

import hashlib

import msgspec

from crawler.model import Lease
from crawler.state.aws.records import page_key


class Ticket(msgspec.Struct, frozen=True, gc=False):
    """`receipt` is the message's on its queue. `run` is the crawl's, so that a lease of a crawl that was purged ends
    nothing of a later crawl of that name."""

    receipt: str
    run: str

    @property
    def token(self) -> str:
        return f"{self.run} {self.receipt}"

    @property
    def stamp(self) -> str:
        """Names the lease in the record that it finished."""
        return hashlib.sha256(self.receipt.encode()).hexdigest()[:16]


def ticket(lease: Lease) -> Ticket:
    """Read a lease's token."""
    run, _, receipt = lease.token.partition(" ")
    return Ticket(receipt, run)


def pk(lease: Lease) -> str:
    """Key of the record of a lease's page."""
    return page_key(lease.crawl, ticket(lease).run, lease.digest)
