"""Names of hosts to addresses, by the system's resolver: only those that may be connected to are handed out."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.guard import check_address, refusal

LOOKUP_TIMEOUT = 10.0
"""Seconds for a DNS lookup, waiting for a free thread included."""

LOOKUP_THREADS = 16
"""Lookups at a time; each blocks a thread, a dead name server for many seconds."""


class GuardedResolver(AbstractResolver):
    """Resolves names by the system's resolver and hands out only addresses that may be connected to."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Addresses of a host, refused ones dropped. Raises FetchFailure (PRIVATE) when all are refused, OSError when
        there are none."""
        addresses = await self._addresses(host, family)
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no address of a kind that can be used")
        reasons = {ip: check_address(ip, self._allow_private) for ip in addresses}
        allowed = [ip for ip, reason in reasons.items() if reason is None]
        for reason in reasons.values():
            if reason is not None and not allowed:
                raise refusal(host, reason)
        return [
            ResolveResult(
                hostname=host,
                host=ip,
                port=port,
                family=socket.AF_INET6 if ":" in ip else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for ip in allowed
        ]

    async def close(self) -> None:
        """Let lookups in progress end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _addresses(self, host: str, family: socket.AddressFamily) -> list[str]:
        name = host.rstrip(".").lower()
        if name == "localhost" or name.endswith(".localhost"):
            # Loopback by definition, and no business of a name server (RFC 6761 6.3).
            local = {socket.AF_INET: ["127.0.0.1"], socket.AF_INET6: ["::1"]}
            return local.get(family, ["127.0.0.1", "::1"])
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, _lookup, host, family)
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT):
                return await lookup
        except TimeoutError:
            raise socket.gaierror(socket.EAI_AGAIN, f"no answer within {LOOKUP_TIMEOUT:.0f} s") from None


def _lookup(host: str, family: socket.AddressFamily) -> list[str]:
    found = socket.getaddrinfo(host, None, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[4][0]) for address in found]
