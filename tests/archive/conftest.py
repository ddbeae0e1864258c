"""The stores under test: a folder, and a bucket of the AWS emulator."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from crawler.archive.stores import Store, open_store
from tests.emulator import Emulator

_buckets = itertools.count(1)


@pytest.fixture
def bucket(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket of its own for each test, and the environment to reach it."""
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    bucket = f"archive-{next(_buckets)}"
    emulator.client("s3").create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture
def directory(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "out"))


@pytest.fixture
def s3(bucket: str) -> Store:
    return open_store(f"s3://{bucket}/some/prefix")


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.emulator)])
def store(request: pytest.FixtureRequest) -> Store:
    """Each kind of store in turn."""
    found: Store = request.getfixturevalue(request.param)
    return found
