"""The archive in a bucket. The only module of the archive that knows the AWS client.

A flush puts the segment's two objects, records first, each with one PUT under a key that repeats with the call. If
the worker dies between the two PUTs, the records have no rows: nobody settled their pages, which come again.
Endpoint, region and credentials are found as the AWS tools find them (AWS_ENDPOINT_URL among them).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import aioboto3
import aiohttp
from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from crawler.archive.folder import BESIDE, PAGES, PARQUET, WARC, file_name, table_name
from crawler.archive.stores import Piece, ReadRange, Segment, Store, StoredFile
from crawler.cost.usage import PROCESS
from crawler.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client
    from types_aiobotocore_s3.type_defs import ObjectIdentifierTypeDef

PARALLEL = 8
"""Objects fetched at a time."""


class S3Store:
    """Store in a bucket, below a prefix. Objects are complete or absent, so there is nothing to take over.

    Each call has a client of its own: 4 ms every flush, and no connection for anybody to close.
    """

    appends = False

    def __init__(self, bucket: str, prefix: str, address: str) -> None:
        self.bucket, self.address = bucket, address
        self._prefix = f"{prefix}/" if prefix else ""
        try:
            self._session = aioboto3.Session()
        except BotoCoreError as error:  # a profile that is not there, a file that cannot be read
            raise StoreError(f"the AWS settings cannot be used: {_line(error)}") from None

    async def check(self) -> None:
        """Lists one key: the right that reading needs. What a PUT needs shows at the first flush."""
        try:
            async with self.client() as s3:
                await s3.list_objects_v2(Bucket=self.bucket, Prefix=self.key("crawls/"), MaxKeys=1)
        except (NoCredentialsError, PartialCredentialsError):
            text = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise StoreError(f"no AWS credentials for {self.address}: {text}") from None
        except ClientError as error:
            code = error.response["Error"].get("Code", "")
            if code in ("NoSuchBucket", "404"):
                text = f"there is no bucket {self.bucket}: make it, or give another --store"
            elif code in ("AccessDenied", "403"):
                text = (
                    f"no right to use the bucket {self.bucket}: it takes s3:ListBucket, s3:GetObject and s3:PutObject"
                )
            else:
                text = f"cannot use {self.address}: {_line(error)}"
            raise StoreError(text) from None
        except (BotoCoreError, OSError, aiohttp.ClientError) as error:
            raise StoreError(f"cannot reach {self.address}: {_line(error)}") from None

    def segment(self, folder: str, name: str) -> Segment:
        return S3Segment(self, folder, name)

    async def take_over(self, folder: str) -> int:  # noqa: ARG002 - nothing is ever half there
        return 0

    async def files(self, folder: str, kind: str) -> list[str]:
        prefix = self.key(f"{folder}/{kind}/")
        names: list[str] = []
        with self.unavailable():
            async with self.client() as s3:
                async for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
                    names += [f"{kind}/{entry['Key'].removeprefix(prefix)}" for entry in page.get("Contents", ())]
        return sorted(names)

    async def read(self, folder: str, names: Sequence[str]) -> AsyncIterator[StoredFile]:
        with tempfile.TemporaryDirectory(prefix="crawler-") as local:
            copies = [Path(local, str(number)) for number in range(PARALLEL)]
            for start in range(0, len(names), PARALLEL):
                batch = names[start : start + PARALLEL]
                with self.unavailable():
                    async with self.client() as s3:
                        fetches = [
                            self._fetch(s3, f"{folder}/{name}", copy) for name, copy in zip(batch, copies, strict=False)
                        ]
                        for failure in await asyncio.gather(*fetches, return_exceptions=True):
                            if failure is not None:
                                raise failure
                for name, copy in zip(batch, copies, strict=False):
                    yield StoredFile(name, copy, False)

    @asynccontextmanager
    async def replace(self, name: str) -> AsyncIterator[Path]:
        """One PUT, which S3 limits to 5 GB."""
        with tempfile.TemporaryDirectory(prefix="crawler-") as local:
            path = Path(local, "part")
            yield path
            with self.unavailable():
                async with self.client() as s3:
                    with path.open("rb") as body:  # noqa: ASYNC230 - a local file, read in pieces while they are sent
                        await s3.put_object(Bucket=self.bucket, Key=self.key(name), Body=body)

    @asynccontextmanager
    async def existing(self, name: str) -> AsyncIterator[Path | None]:
        with tempfile.TemporaryDirectory(prefix="crawler-") as local:
            path: Path | None = Path(local, "copy")
            with self.unavailable():
                async with self.client() as s3:
                    try:
                        await self._fetch(s3, name, Path(local, "copy"))
                    except ClientError as error:
                        if error.response["Error"].get("Code") not in ("NoSuchKey", "404"):
                            raise
                        path = None
            yield path

    @asynccontextmanager
    async def ranges(self) -> AsyncIterator[ReadRange]:
        async with self.client() as s3:

            async def read(name: str, offset: int, length: int) -> bytes:
                try:
                    part = f"bytes={offset}-{offset + length - 1}"
                    answer = await s3.get_object(Bucket=self.bucket, Key=self.key(name), Range=part)
                    async with answer["Body"] as body:
                        return await body.read()
                except (BotoCoreError, ClientError, OSError, aiohttp.ClientError) as error:
                    raise StoreError(f"cannot read {self.address.rstrip('/')}/{name}: {_line(error)}") from None

            yield read

    async def publish(self, folder: str) -> None:
        """A copy inside the bucket; its bytes never come here."""
        with self.unavailable():
            async with self.client() as s3:
                await s3.copy_object(
                    Bucket=self.bucket,
                    Key=self.key(table_name(folder)),
                    CopySource={"Bucket": self.bucket, "Key": self.key(folder + PARQUET)},
                )

    async def drop(self, folder: str) -> None:
        with self.unavailable():
            async with self.client() as s3:
                names = (*(folder + suffix for suffix in BESIDE), table_name(folder))
                beside: list[ObjectIdentifierTypeDef] = [{"Key": self.key(name)} for name in names]
                await s3.delete_objects(Bucket=self.bucket, Delete={"Objects": beside})
                prefix = self.key(f"{folder}/")
                async for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
                    if keys := [entry["Key"] for entry in page.get("Contents", ())]:
                        objects: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in keys]
                        await s3.delete_objects(Bucket=self.bucket, Delete={"Objects": objects})

    async def _fetch(self, s3: S3Client, name: str, path: Path) -> None:
        answer = await s3.get_object(Bucket=self.bucket, Key=self.key(name))
        with path.open("wb") as file:
            async for chunk in answer["Body"].iter_chunks(1024 * 1024):
                file.write(chunk)

    def key(self, name: str) -> str:
        return self._prefix + name

    @asynccontextmanager
    async def client(self) -> AsyncIterator[S3Client]:
        config = AioConfig(
            connect_timeout=5,
            read_timeout=30,
            retries={"mode": "standard", "total_max_attempts": 3},
            s3={"addressing_style": "path"} if os.environ.get("AWS_ENDPOINT_URL") else None,
        )
        async with self._session.client("s3", config=config) as made:
            client = cast("S3Client", made)
            PROCESS.watch(client)
            yield client

    @contextmanager
    def unavailable(self) -> Iterator[None]:
        """The client's exceptions, as the store's."""
        try:
            yield
        except (BotoCoreError, ClientError, OSError, aiohttp.ClientError) as error:
            raise StoreUnavailable(f"{self.address} did not do it: {_line(error)}") from error


class S3Segment:
    """A pair of objects, put by one `write`. A repetition does not put again what S3 has acknowledged."""

    def __init__(self, store: S3Store, folder: str, name: str) -> None:
        self._store = store
        self._names = {kind: f"{folder}/{file_name(kind, name)}" for kind in (WARC, PAGES)}
        self._put: set[str] = set()

    async def write(self, records: Piece, rows: Piece) -> None:
        with self._store.unavailable():
            async with self._store.client() as s3:
                for kind, piece in ((WARC, records), (PAGES, rows)):
                    if piece.data and kind not in self._put:
                        key = self._store.key(self._names[kind])
                        await s3.put_object(Bucket=self._store.bucket, Key=key, Body=piece.data)
                        self._put.add(kind)

    async def finish(self) -> None:
        """The objects are what they will be."""


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _conforms(store: S3Store) -> Store:
    """For the type checker."""
    return store
