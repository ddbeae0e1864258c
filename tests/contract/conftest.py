"""Fixtures of the contract suite: the backend under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.backends import ROWS, Backend, Row


@pytest.fixture(params=[pytest.param(row, id=row.name, marks=row.marks) for row in ROWS])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    """A fresh, empty state of each row in turn."""
    row: Row = request.param
    made = await row.make(tmp_path)
    try:
        yield made
    finally:
        await made.close()
