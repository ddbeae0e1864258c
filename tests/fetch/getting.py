"""Fetch once, and say how it went."""

from __future__ import annotations

import pytest

from crawler.errors import FetchFailure
from crawler.fetch import Fetcher
from crawler.fetched import Response
from tests.servers import Script, serve


async def failure(fetcher: Fetcher, url: str, **options: float) -> FetchFailure:
    with pytest.raises(FetchFailure) as caught:
        await fetcher.get(url, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return caught.value


async def fetched(fetcher: Fetcher, script: Script | bytes, **options: float) -> Response:
    """Fetch once; in the end the server must see the connection closed, or idle in the pool."""
    async with serve(script) as server:
        return await fetcher.get(server.url("/page"), **options)  # type: ignore[arg-type]
