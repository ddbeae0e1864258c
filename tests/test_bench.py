"""The measurements measure: the proxy names what passes and its units, the log tells good manners from bad."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.session import Session

from bench import manners, measure
from bench.counting_proxy import CountingProxy
from bench.site.plan import Shape
from bench.site.write import site
from crawler.cost.usage import Unit, Usage


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site, all of it."""
    return site(Shape(pages=80, hosts=4), tmp_path_factory.mktemp("site"))


def log_of(tmp_path: Path, lines: list[str]) -> Path:
    log = tmp_path / "access.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    return log


def polite(folder: Path) -> list[str]:
    """An access log in which each page is asked for once."""
    urls = (folder / "urls.txt").read_text().split()
    return [f"1.0 {url.split('/')[2].split(':')[0]} 200 /{url.split('/', 3)[3]}" for url in urls]


def test_the_same_shape_is_the_same_site(folder: Path, tmp_path: Path) -> None:
    again = site(Shape(pages=80, hosts=4), tmp_path)
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert len(files) > 80
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert all((folder / file).read_bytes() == (again / file).read_bytes() for file in files)


def test_each_page_once_is_complete_and_in_any_spelling(folder: Path, tmp_path: Path) -> None:
    lines = polite(folder)
    index, view = next((index, line) for index, line in enumerate(lines) if "/view?" in line)
    number = view.split("id=")[1].split("&")[0]
    lines[index] = view.split("/view")[0].upper() + f"/view?lang=en&id={number}&utm_source=x"
    found = manners.read(log_of(tmp_path, lines), folder)
    assert (found.faultless, found.requests) == (True, 80)


def test_a_missed_page_a_doubled_one_and_a_forbidden_one_are_counted(folder: Path, tmp_path: Path) -> None:
    first, _, *rest = polite(folder)
    third = first.replace(" 200 /", " 200 /private/")
    found = manners.read(log_of(tmp_path, [first, first, third, *rest]), folder)
    assert (found.missed, found.doubled, found.forbidden, found.faultless) == (1, 1, 1, False)


def test_a_page_that_failed_is_missed(folder: Path, tmp_path: Path) -> None:
    first, *rest = polite(folder)
    found = manners.read(log_of(tmp_path, [first.replace(" 200 ", " 500 "), *rest]), folder)
    assert found.missed == 1


def test_cost_counts_what_children_of_the_command_used(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}]); sys.exit(3)"
    cost = measure.run([sys.executable, "-c", parent], env={}, output=tmp_path / "output.txt")
    assert cost.code == 3
    assert cost.cpu >= 0.3
    assert cost.rss > 0


def use_services(endpoint: str) -> bytes:
    """Some requests to each service; the object as it came back."""

    def client(name: str) -> Any:
        return Session().create_client(
            name, region_name="us-east-1", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b"
        )

    sqs, dynamodb, s3 = client("sqs"), client("dynamodb"), client("s3")
    url = sqs.create_queue(QueueName="counted")["QueueUrl"]
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": str(n), "MessageBody": "x"} for n in range(3)])
    sqs.receive_message(QueueUrl=url)
    key = {"AttributeName": "pk", "KeyType": "HASH"}
    dynamodb.create_table(
        TableName="counted",
        KeySchema=[key],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.put_item(TableName="counted", Item={"pk": {"S": "ü"}})
    s3.create_bucket(Bucket="counted")
    s3.put_object(Bucket="counted", Key="a/b c+d.gz", Body=b"\x00" * 100_000)
    s3.list_objects_v2(Bucket="counted")
    upload = s3.create_multipart_upload(Bucket="counted", Key="big")["UploadId"]
    s3.upload_part(Bucket="counted", Key="big", UploadId=upload, PartNumber=1, Body=b"x")
    s3.abort_multipart_upload(Bucket="counted", Key="big", UploadId=upload)
    client("cloudformation").describe_stacks()
    body: bytes = s3.get_object(Bucket="counted", Key="a/b c+d.gz")["Body"].read()
    for one in (sqs, dynamodb, s3):
        one.close()
    return body


@pytest.mark.emulator
async def test_the_proxy_passes_requests_on_unharmed_and_names_each(emulator: Any) -> None:
    async with CountingProxy(emulator.endpoint) as proxy:
        assert await asyncio.to_thread(use_services, proxy.endpoint) == b"\x00" * 100_000

    assert proxy.counts == {
        ("SQS", "CreateQueue"): 1,
        ("SQS", "SendMessageBatch"): 1,
        ("SQS", "ReceiveMessage"): 1,
        ("DynamoDB", "CreateTable"): 1,
        ("DynamoDB", "PutItem"): 1,
        ("S3", "PutBucket"): 1,
        ("S3", "PutObject"): 1,
        ("S3", "ListObjectsV2"): 1,
        ("S3", "CreateMultipartUpload"): 1,
        ("S3", "UploadPart"): 1,
        ("S3", "AbortMultipartUpload"): 1,
        ("S3", "GetObject"): 1,
        ("cloudformation", "DescribeStacks"): 1,
    }
    used = sum((call.used for call in proxy.calls), Usage())
    assert used.units == {Unit.SQS: 3, Unit.WRITES: 1, Unit.PUTS: 5, Unit.GETS: 1, Unit.STORED: 100_001}
