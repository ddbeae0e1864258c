"""Workers on AWS tell what they used of it: each request, each refusal, and the price."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from crawler.telemetry.names import Fleet
from tests import command
from tests.aws.proxy import Proxy
from tests.emulator import Emulator, Template
from tests.local_site import demo_site_process
from tests.telemetry.workers import BUDGET, ON, events, log_bytes, totals

pytestmark = [pytest.mark.e2e, pytest.mark.emulator]

STACK = "Telling"


async def test_a_worker_on_a_stack_tells_each_request_and_each_refusal(
    tmp_path: Path, emulator: Emulator, template: Template, proxy: Proxy
) -> None:
    await asyncio.to_thread(emulator.deploy, template, STACK)
    env = {**emulator.environment, "AWS_ENDPOINT_URL": proxy.endpoint, "CRAWLER_STATE": f"aws://{STACK}"}
    with demo_site_process(tmp_path, pages=150) as demo:
        seeding = ("seed", *demo.seeds, "--rate", "0", "--allow-private", "--max-pages", "60")
        assert (await asyncio.to_thread(command.run, *seeding, env=env)).returncode == 0
        proxy.seen.clear()
        proxy.fail("BatchExecuteStatement", 400, "ThrottlingException", times=2)
        proxy.fail("SendMessageBatch", 400, "RequestThrottled", times=1)
        result = await asyncio.to_thread(command.run, "work", "--until-complete", env={**env, **ON})
    assert result.returncode == 0, result.stderr
    told = totals([result.stdout])
    lines = events(result.stdout)
    assert {line["Stack"] for line in lines} == {STACK}
    assert lines[0]["backend"] == "aws"
    requests: Counter[str] = Counter()
    for line in lines:
        requests.update(line.get("requests", {}))
    assert told[Fleet.AWS_REQUESTS] == requests.total()
    # A state that closes still pays into the crawl's account; S3's requests name no operation to the proxy.
    sent = Counter(operation for operation in proxy.seen if operation not in ("?", "UpdateItem"))
    named = {name.partition(".")[2]: count for name, count in requests.items() if not name.startswith("s3.")}
    assert {name: count for name, count in named.items() if name in sent} == sent
    assert requests["s3.PutObject"] > 0
    assert told[Fleet.THROTTLES] == 3
    assert 0 < told[Fleet.DOLLARS] < 0.01
    assert told[Fleet.PAGES] >= 60
    assert log_bytes(result) <= BUDGET * told[Fleet.PAGES]
