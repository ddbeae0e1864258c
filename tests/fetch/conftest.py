"""The client that most of these tests fetch with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from crawler.fetch import Fetcher


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher("tester/1.0", contact="me@example.com", allow_private=True, max_body=100_000) as fetcher:
        yield fetcher
