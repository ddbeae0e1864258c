"""One crawl for all tests of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.sql.site import crawl

Row = dict[str, Any]


class Crawled(NamedTuple):
    """The folder of a crawl, its merged file, and the rows as pyarrow reads them. To be read only."""

    folder: Path
    file: Path
    rows: list[Row]


@pytest.fixture(scope="session")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawled:
    folder = tmp_path_factory.mktemp("sql") / "out"
    rows = crawl(folder)
    (file,) = folder.glob("crawls/*/*/*/*.parquet")
    return Crawled(folder, file, rows)
