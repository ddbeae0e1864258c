"""SQL over the archive: a table of all crawls, a workgroup that bounds what a query may cost, and saved queries."""

from __future__ import annotations

import re

import pyarrow as pa
from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_athena as athena
from aws_cdk import aws_glue as glue
from constructs import Construct

from crawler.archive.folder import TABLE
from crawler.archive.schema import SCHEMA
from crawler.sql.queries import saved_queries
from infra.archive import Archive

FIRST_DAY = "2026-01-01"
"""No crawl is older. A query that names no day looks for files of each day from then on: a listing of S3 for each."""

MOST_BYTES = 100 * 1024**3
"""What one query may read before it is cancelled: half a dollar's worth at 5 dollars a TB."""

RESULTS = "athena-results"
RESULT_DAYS = 7

_TYPES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
"""Glue's names for the types of the Parquet schema."""


class Athena(Construct):
    """Nothing here outlives the stack: the data is the archive's, and a new stack describes it anew.

    The partitions are computed from the day (partition projection), so that nobody has to register a new one. Names
    are made of the stack's, which is unique: a workgroup has no generated name.
    """

    def __init__(self, scope: Construct, name: str, *, archive: Archive) -> None:
        super().__init__(scope, name)
        stack = Stack.of(self).stack_name
        self.workgroup = self._workgroup(stack, archive)
        self.database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=re.sub(r"[^a-z0-9]", "_", stack.lower()), description=f"Crawls of the stack {stack}"
            ),
        )
        self.table = self._table(archive)
        for query in saved_queries():
            saved = athena.CfnNamedQuery(
                self,
                query.name,
                database=self.database.ref,
                name=query.name,
                description=query.description,
                query_string=query.text,
                work_group=self.workgroup.name,
            )
            saved.add_resource_dependency(self.workgroup)

    def _workgroup(self, name: str, archive: Archive) -> athena.CfnWorkGroup:
        archive.bucket.add_lifecycle_rule(
            id="expire-query-results", prefix=f"{RESULTS}/", expiration=Duration.days(RESULT_DAYS)
        )
        return athena.CfnWorkGroup(
            self,
            "Workgroup",
            name=name,
            description="Queries over crawled pages",
            # The history of queries would keep the workgroup, and with it the stack, from being deleted.
            recursive_delete_option=True,
            work_group_configuration=athena.CfnWorkGroup.WorkGroupConfigurationProperty(
                enforce_work_group_configuration=True,
                bytes_scanned_cutoff_per_query=MOST_BYTES,
                engine_version=athena.CfnWorkGroup.EngineVersionProperty(
                    selected_engine_version="Athena engine version 3"
                ),
                publish_cloud_watch_metrics_enabled=True,
                requester_pays_enabled=False,
                result_configuration=athena.CfnWorkGroup.ResultConfigurationProperty(
                    output_location=archive.bucket.s3_url_for_object(f"{RESULTS}/"),
                    expected_bucket_owner=Aws.ACCOUNT_ID,
                    encryption_configuration=athena.CfnWorkGroup.EncryptionConfigurationProperty(
                        encryption_option="SSE_S3"
                    ),
                ),
            ),
        )

    def _table(self, archive: Archive) -> glue.CfnTable:
        location = archive.bucket.s3_url_for_object(f"{TABLE}/")
        return glue.CfnTable(
            self,
            "Pages",
            catalog_id=Aws.ACCOUNT_ID,
            database_name=self.database.ref,
            table_input=glue.CfnTable.TableInputProperty(
                name="pages",
                description="A row a URL of each merged crawl; day is the day it began (UTC)",
                table_type="EXTERNAL_TABLE",
                parameters={
                    "EXTERNAL": "TRUE",
                    "classification": "parquet",
                    "projection.enabled": "true",
                    "projection.day.type": "date",
                    "projection.day.format": "yyyy-MM-dd",
                    "projection.day.range": f"{FIRST_DAY},NOW",
                    "projection.day.interval": "1",
                    "projection.day.interval.unit": "DAYS",
                    "storage.location.template": location + "day=${day}/",
                },
                partition_keys=[glue.CfnTable.ColumnProperty(name="day", type="string")],
                storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
                    columns=[
                        glue.CfnTable.ColumnProperty(name=field.name, type=_TYPES[field.type]) for field in SCHEMA
                    ],
                    location=location,
                    input_format="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
                    output_format="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
                    serde_info=glue.CfnTable.SerdeInfoProperty(
                        serialization_library="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
                    ),
                ),
            ),
        )
