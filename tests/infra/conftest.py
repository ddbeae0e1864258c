"""Fixtures of the tests of what watches a stack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulator import Emulator, Template
from tests.infra.watched import Watched


@pytest.fixture
def watched(emulator: Emulator, template: Template, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """A stack, and an environment that leads this process to it."""
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    watched = Watched(emulator, template)
    yield watched
    watched.close()
