"""The table of all crawls in a bucket: what a merge puts there, and what Athena's emulator reads of it.

That emulator runs a query in DuckDB over all objects below the table's location, as Athena reads them. It knows no
partition projection, no execution parameters and, in a template, no saved queries.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawler.archive.archive import Archive
from crawler.archive.folder import crawl_folder, parquet_name, table_name
from crawler.archive.merge import merge
from crawler.archive.stores import Store, open_store
from crawler.entrypoints.cli import cli
from crawler.errors import UsageError
from crawler.model import CrawlRecord
from crawler.sql.queries import saved_queries
from tests.archive.making import add, crawl
from tests.command import wait_for
from tests.emulator import Emulator, Template, running
from tests.infra.stacks import full

pytestmark = [pytest.mark.emulator, pytest.mark.xdist_group("sql-table")]

STACK = "Athena"
KEPT = ("AWS::S3::Bucket", "AWS::Glue::Database", "AWS::Glue::Table", "AWS::Athena::WorkGroup")
OUTPUTS = ("ArchiveBucket", "Database", "Workgroup")


@pytest.fixture(scope="module")
def athena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulator that finds DuckDB, and nothing else of this environment's packages."""
    packages = tmp_path_factory.mktemp("packages")
    for found in Path(sysconfig.get_path("platlib")).glob("*duckdb*"):
        (packages / found.name).symlink_to(found)
    with running(tmp_path_factory.mktemp("athena"), PYTHONPATH=str(packages)) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def outputs(athena: Emulator, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Athena's part of a stack, deployed."""
    whole = full(tmp_path_factory, "fargate")
    part: Template = {
        "Resources": {name: each for name, each in whole["Resources"].items() if each["Type"] in KEPT},
        "Outputs": {name: whole["Outputs"][name] for name in OUTPUTS},
    }
    assert {each["Type"] for each in part["Resources"].values()} == set(KEPT)
    return athena.deploy(part, STACK)


@pytest.fixture
def store(athena: Emulator, outputs: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The archive's bucket, which is empty again afterwards."""
    for name, value in athena.environment.items():
        monkeypatch.setenv(name, value)
    yield open_store(f"s3://{outputs['ArchiveBucket']}")
    s3 = athena.client("s3")
    for key in keys(athena, outputs):
        s3.delete_object(Bucket=outputs["ArchiveBucket"], Key=key)


def keys(athena: Emulator, outputs: dict[str, str]) -> list[str]:
    listed = athena.client("s3").list_objects_v2(Bucket=outputs["ArchiveBucket"])
    return [entry["Key"] for entry in listed.get("Contents", ())]


def asked(athena: Emulator, outputs: dict[str, str], query: str) -> list[list[str | None]]:
    """The rows that Athena answers, as text."""
    client = athena.client("athena")
    started = client.start_query_execution(
        QueryString=query,
        QueryExecutionContext={"Database": outputs["Database"]},
        WorkGroup=outputs["Workgroup"],
    )["QueryExecutionId"]

    def ended() -> dict[str, Any] | None:
        execution: dict[str, Any] = client.get_query_execution(QueryExecutionId=started)["QueryExecution"]
        return execution if execution["Status"]["State"] in ("SUCCEEDED", "FAILED") else None

    execution = wait_for(ended)
    assert execution["Status"]["State"] == "SUCCEEDED", execution["Status"]
    assert execution["ResultConfiguration"]["OutputLocation"].startswith(
        f"s3://{outputs['ArchiveBucket']}/athena-results/"
    )
    rows = client.get_query_results(QueryExecutionId=started)["ResultSet"]["Rows"]
    return [[cell.get("VarCharValue") for cell in row["Data"]] for row in rows[1:]]


async def merged(store: Store, record: CrawlRecord, worker: str, *numbers: int) -> None:
    """Pages more in a crawl, merged."""
    archive = await Archive.open(store, record, worker)
    for number in numbers:
        add(archive, number, crawl_id=record.id)
    await archive.close()
    await merge(store, record)


def named(name: str, *, days: int = 0) -> CrawlRecord:
    return msgspec.structs.replace(crawl(), id=name, started_at=crawl().started_at + days * 86_400)


async def test_a_merge_puts_the_file_where_nothing_but_such_files_lies(
    athena: Emulator, outputs: dict[str, str], store: Store
) -> None:
    record = named("c1")
    await merged(store, record, "w", 1, 2)
    key = "tables/pages/day=2026-09-21/c1.parquet"
    assert [found for found in keys(athena, outputs) if not found.startswith("crawls/")] == [key]
    async with store.existing(parquet_name(record)) as file, store.existing(key) as copy:
        assert file is not None
        assert copy is not None
        assert file.read_bytes() == copy.read_bytes()


async def test_athena_reads_the_rows_of_all_crawls_once_and_with_their_day(
    athena: Emulator, outputs: dict[str, str], store: Store
) -> None:
    await merged(store, named("c1"), "w", 1, 2)
    await merged(store, named("_hidden"), "w", 1)
    await merged(store, named("later", days=1), "w", 1, 2, 3)
    # Again, with another page: the file in the table is the newer one.
    await merged(store, named("c1"), "w2", 3)
    query = "SELECT crawl_id, day, count(*) FROM pages GROUP BY crawl_id, day ORDER BY crawl_id"
    assert asked(athena, outputs, query) == [
        ["_hidden", "2026-09-21", "1"],
        ["c1", "2026-09-21", "3"],
        ["later", "2026-09-22", "3"],
    ]
    assert asked(athena, outputs, query) == asked(athena, outputs, query), "results are not read as rows"


async def test_a_crawl_that_is_dropped_leaves_the_table(
    athena: Emulator, outputs: dict[str, str], store: Store
) -> None:
    for name in ("c1", "c1.2", "_c1"):
        await merged(store, named(name), "w", 1)
    for _ in range(2):
        await store.drop(crawl_folder(named("c1")))
        await store.drop(crawl_folder(named("_c1")))
    query = "SELECT crawl_id FROM pages"
    assert asked(athena, outputs, query) == [["c1.2"]]
    await store.drop(crawl_folder(named("c1.2")))
    assert asked(athena, outputs, query) == []


def test_a_name_in_the_table_is_visible_and_of_one_crawl() -> None:
    ids = ("c1", "_c1", "%5Fc1", ".c1", "%2Ec1", "c_1", "a/b", "..")
    names = [table_name(crawl_folder(named(name))) for name in ids]
    assert len(set(names)) == len(ids)
    assert all(name.rpartition("/")[2][0] not in "._" for name in names)
    assert {name.rpartition("/")[0] for name in names} == {"tables/pages/day=2026-09-21"}


async def test_the_saved_queries_run_in_the_stack(athena: Emulator, outputs: dict[str, str], store: Store) -> None:
    await merged(store, named("c1"), "w", 1, 2)
    await merged(store, named("c2"), "w", 1)
    answered = {
        query.name: asked(athena, outputs, query.text.replace("crawl_id = ?", "crawl_id = 'c1'"))
        for query in saved_queries()
    }
    assert answered.pop("status-by-host") == [["site.test", "2", "2", "0", "0", "0", "0", "0", "800"]]
    assert not any(answered.values())


def test_the_command_reads_a_merged_file_from_a_bucket(
    outputs: dict[str, str], store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> str:
        cli([*arguments, "--state", str(tmp_path / "state.sqlite"), "--crawl", "far"], standalone_mode=False)
        return capsys.readouterr().out

    run("seed", "http://site.test/", "--store", f"s3://{outputs['ArchiveBucket']}")
    with pytest.raises(UsageError, match=r"^crawl far is not merged yet: run `crawler merge` first$"):
        run("sql", "duplicates")
    run("merge")
    assert run("sql", "SELECT count(*) AS n FROM pages", "--json") == '{"n":0}\n'
