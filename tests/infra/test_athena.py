"""Athena's part of the template: a table that fits the files, a workgroup with limits, the saved queries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crawler.archive.folder import crawl_folder, table_name
from crawler.archive.schema import ParquetFile
from crawler.config import CrawlSettings
from crawler.model import CrawlRecord
from crawler.sql.queries import saved_queries
from tests.emulator import Template, of_type, output_id
from tests.infra.stacks import full

GLUE = {"string": "string", "int32": "int", "int64": "bigint", "bool": "boolean", "timestamp[us, tz=UTC]": "timestamp"}
"""Glue's name for what pyarrow reads from a file."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return full(tmp_path_factory, "fargate")


@pytest.fixture
def table(stack: Template) -> dict[str, Any]:
    (table,) = of_type(stack, "AWS::Glue::Table").values()
    assert table["DatabaseName"] == {"Ref": output_id(stack, "Database")}
    return table["TableInput"]  # type: ignore[no-any-return]


@pytest.fixture
def configuration(stack: Template) -> dict[str, Any]:
    (group,) = of_type(stack, "AWS::Athena::WorkGroup").values()
    return group["WorkGroupConfiguration"]  # type: ignore[no-any-return]


def in_bucket(stack: Template, url: dict[str, Any]) -> str:
    """The key of an s3:// URL, which must lie in the archive's bucket."""
    scheme, bucket, key = url["Fn::Join"][1]
    assert (scheme, bucket) == ("s3://", {"Ref": output_id(stack, "ArchiveBucket")})
    return str(key).removeprefix("/")


def test_without_the_setting_there_is_none_of_it(template: Template) -> None:
    assert not [name for name, r in template["Resources"].items() if r["Type"].split("::")[1] in ("Glue", "Athena")]
    assert template["Outputs"].keys().isdisjoint({"Database", "Workgroup"})


def test_columns_are_those_of_a_merged_file_in_order_and_type(table: dict[str, Any], tmp_path: Path) -> None:
    with ParquetFile(tmp_path / "c1.parquet") as parquet:
        parquet.write([])
    written = pq.read_schema(tmp_path / "c1.parquet")
    expected = [(field.name, GLUE[str(field.type)]) for field in written]
    assert [(column["Name"], column["Type"]) for column in table["StorageDescriptor"]["Columns"]] == expected
    assert table["PartitionKeys"] == [{"Name": "day", "Type": "string"}]
    assert "day" not in written.names


def test_a_day_is_a_partition_where_its_crawls_lie_and_nothing_else(stack: Template, table: dict[str, Any]) -> None:
    parameters = table["Parameters"]
    template = in_bucket(stack, parameters["storage.location.template"])
    location = in_bucket(stack, table["StorageDescriptor"]["Location"])
    assert template == location + "day=${day}/"
    crawl = CrawlRecord(id="c1", started_at=1_790_000_000.0, settings=CrawlSettings())
    assert table_name(crawl_folder(crawl)) == template.replace("${day}", "2026-09-21") + "c1.parquet"
    assert not crawl_folder(crawl).startswith(location)
    assert {name: value for name, value in parameters.items() if name.startswith("projection.")} == {
        "projection.enabled": "true",
        "projection.day.type": "date",
        "projection.day.format": "yyyy-MM-dd",
        "projection.day.range": "2026-01-01,NOW",
        "projection.day.interval": "1",
        "projection.day.interval.unit": "DAYS",
    }


def test_what_a_query_may_read_has_a_limit_that_nobody_can_lift(configuration: dict[str, Any]) -> None:
    assert configuration["EnforceWorkGroupConfiguration"] is True
    # Ten times what ten million pages take.
    assert 10 * 1024**3 < configuration["BytesScannedCutoffPerQuery"] <= 1024**4
    assert configuration["EngineVersion"] == {"SelectedEngineVersion": "Athena engine version 3"}


def test_results_are_encrypted_in_a_place_of_their_own_and_expire(
    stack: Template, configuration: dict[str, Any]
) -> None:
    results = configuration["ResultConfiguration"]
    assert results["EncryptionConfiguration"] == {"EncryptionOption": "SSE_S3"}
    assert results["ExpectedBucketOwner"] == {"Ref": "AWS::AccountId"}
    place = in_bucket(stack, results["OutputLocation"])
    (table,) = of_type(stack, "AWS::Glue::Table").values()
    assert not in_bucket(stack, table["TableInput"]["StorageDescriptor"]["Location"]).startswith(place)
    rules = stack["Resources"][output_id(stack, "ArchiveBucket")]["Properties"]["LifecycleConfiguration"]["Rules"]
    assert [rule["ExpirationInDays"] for rule in rules if rule.get("Prefix") == place] == [7]


def test_the_saved_queries_are_those_of_the_command(stack: Template) -> None:
    found = of_type(stack, "AWS::Athena::NamedQuery")
    (group,) = of_type(stack, "AWS::Athena::WorkGroup")
    queries = {query.name: query for query in saved_queries()}
    assert {query["Name"] for query in found.values()} == queries.keys()
    for name, query in found.items():
        saved = queries[query["Name"]]
        assert (query["QueryString"], query["Description"]) == (saved.text, saved.description)
        assert query["Database"] == {"Ref": output_id(stack, "Database")}
        assert query["WorkGroup"] == stack["Outputs"]["Workgroup"]["Value"]
        assert group in stack["Resources"][name]["DependsOn"]


def test_nothing_of_it_outlives_the_stack_or_keeps_it_from_going(stack: Template) -> None:
    (group,) = of_type(stack, "AWS::Athena::WorkGroup").values()
    assert group["RecursiveDeleteOption"] is True
    for resource in stack["Resources"].values():
        if re.match("AWS::(Glue|Athena)::", resource["Type"]):
            assert resource.get("DeletionPolicy", "Delete") == "Delete"
