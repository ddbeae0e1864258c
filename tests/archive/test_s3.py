"""The bucket: one PUT for many pages, a network that fails, and what is said when it cannot be used."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from crawler.archive.archive import Archive
from crawler.archive.folder import PAGES, WARC
from crawler.archive.stores import Store, open_store
from crawler.errors import StoreError, StoreUnavailable, UsageError
from tests.archive.making import add, crawl, stored, stored_rows, stored_urls
from tests.archive.relay import Relay
from tests.emulator import Emulator

pytestmark = pytest.mark.emulator


@pytest.fixture
async def relay(emulator: Emulator, bucket: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Relay]:
    """The way to the bucket, which the test can cut."""
    target = urlsplit(emulator.endpoint)
    assert target.hostname is not None
    assert target.port is not None
    async with Relay(target.hostname, target.port) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{relay.port}")
        yield relay


async def test_a_flush_is_two_objects_however_many_pages_it_holds(s3: Store, bucket: str, emulator: Emulator) -> None:
    archive = await Archive.open(s3, crawl(), "w")
    for number in range(50):
        add(archive, number)
    await archive.flush()
    add(archive, 50)
    await archive.close()
    listed = emulator.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert sorted(entry["Key"] for entry in listed) == [
        "some/prefix/crawls/2026/09/21/c1/pages/w-0001.ndjson.gz",
        "some/prefix/crawls/2026/09/21/c1/pages/w-0002.ndjson.gz",
        "some/prefix/crawls/2026/09/21/c1/warc/w-0001.warc.gz",
        "some/prefix/crawls/2026/09/21/c1/warc/w-0002.warc.gz",
    ]


@pytest.mark.case("G08")
async def test_while_the_network_is_away_nothing_is_acknowledged_or_lost(relay: Relay, s3: Store) -> None:
    archive = await Archive.open(s3, crawl(), "w")
    add(archive, 1)
    await relay.down()
    for number in (2, 3):
        with pytest.raises(StoreUnavailable, match="s3://"):
            await archive.flush()
        add(archive, number)
    assert archive.size > 0
    await relay.up()
    await archive.flush()
    assert archive.size == 0
    assert sorted(await stored_urls(s3)) == [f"http://site.test/{number}" for number in (1, 2, 3)]
    await archive.close()
    assert len(await stored_rows(s3)) == 3


@pytest.mark.case("G08")
async def test_an_answer_that_is_lost_makes_no_second_object(relay: Relay, s3: Store) -> None:
    archive = await Archive.open(s3, crawl(), "w")
    add(archive, 1)
    relay.deaf = True
    with pytest.raises(StoreUnavailable):
        await archive.flush()
    relay.deaf = False
    await archive.close()
    assert list(await stored(s3, WARC)) == ["warc/w-0001.warc.gz"]
    assert list(await stored(s3, PAGES)) == ["pages/w-0001.ndjson.gz"]


async def test_more_objects_than_one_fetch_takes_are_read_in_order(s3: Store) -> None:
    archive = await Archive.open(s3, crawl(), "w")
    for number in range(19):
        add(archive, number)
        await archive.flush()
    assert await stored_urls(s3) == [f"http://site.test/{number}" for number in range(19)]
    await archive.close()


async def test_a_missing_object_is_an_error_of_the_store(s3: Store) -> None:
    with pytest.raises(StoreUnavailable, match="NoSuchKey"):
        _ = [file async for file in s3.read("nowhere", ["warc/a.warc.gz"])]


async def test_check_is_content_with_an_empty_bucket_and_writes_nothing(
    s3: Store, bucket: str, emulator: Emulator
) -> None:
    await s3.check()
    assert emulator.client("s3").list_objects_v2(Bucket=bucket)["KeyCount"] == 0


async def test_a_missing_bucket_is_named_in_one_line(bucket: str) -> None:
    with pytest.raises(StoreError, match="there is no bucket no-such-bucket: make it, or give another --store"):
        await open_store("s3://no-such-bucket/x").check()


async def test_missing_credentials_are_told_in_one_line(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(StoreError, match=r"no AWS credentials for s3://.*: set AWS_PROFILE"):
        await open_store(f"s3://{bucket}").check()


async def test_an_endpoint_that_does_not_answer_is_told_in_one_line(relay: Relay, s3: Store) -> None:
    await relay.down()
    with pytest.raises(StoreError, match="cannot reach s3://") as caught:
        await s3.check()
    assert not isinstance(caught.value, StoreUnavailable)
    assert "\n" not in str(caught.value)


def test_without_the_client_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "crawler.archive.s3", raising=False)
    monkeypatch.setitem(sys.modules, "aioboto3", None)
    with pytest.raises(UsageError, match=r"pip install 'crawler\[aws\]'"):
        open_store("s3://bucket/prefix")
