"""The janitor's own requests to AWS: an event, and a service told to stop. The one module here that knows the client.

Each call has a client of its own: both are rare. Endpoint, region and credentials are found as the AWS tools find them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aioboto3
import aiohttp
from aiobotocore.config import AioConfig
from botocore.exceptions import BotoCoreError, ClientError

from crawler.errors import CrawlerError

SOURCE, COMPLETED = "crawler", "CrawlCompleted"
"""Of the event, for the rules that match it."""

ATTEMPTS = 4
"""Of a request, by the client library."""


class NotDone(CrawlerError):
    """AWS refused or did not answer; whether it was done is unknown. Both calls may be repeated."""


async def announce(detail: str) -> None:
    """Put an event on the account's default bus; `detail` is its JSON object, at most 256 kB. Errors: NotDone."""
    entry = {"Source": SOURCE, "DetailType": COMPLETED, "Detail": detail}
    async with _client("events") as events:
        answer = await events.put_events(Entries=[entry])
    if answer["FailedEntryCount"]:
        failed = answer["Entries"][0]
        raise NotDone(f"EventBridge refused an event: {failed.get('ErrorCode')} {failed.get('ErrorMessage', '')}")


async def stop(cluster: str, service: str) -> None:
    """Let a service run no task. Its tasks get SIGTERM and finish what they hold. Errors: NotDone."""
    async with _client("ecs") as ecs:
        await ecs.update_service(cluster=cluster, service=service, desiredCount=0)


@asynccontextmanager
async def _client(service: Any) -> AsyncIterator[Any]:
    retries: Any = {"mode": "standard", "total_max_attempts": ATTEMPTS}
    config = AioConfig(connect_timeout=3, read_timeout=15, retries=retries)
    try:
        async with aioboto3.Session().client(service, config=config) as client:
            yield client
    except (BotoCoreError, ClientError, OSError, aiohttp.ClientError) as error:
        raise NotDone(f"AWS did not do it: {' '.join(str(error).split())[:300] or type(error).__name__}") from None
