"""Roles at what a quick crawl never needs: pages whose turns are far, or of a paused crawl, lie in the control table.

The emulator knows no rights to PartiQL on a table. So what was asked for is compared with the policies.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from crawler.demo.site import running as demo_site
from tests.emulator import Template, output_id
from tests.infra.stacks import FULL
from tests.stack.enforced import Enforced, enforced
from tests.stack.policies import Right, granted, used
from tests.stack.test_least_privilege import (
    Lanes,
    call,
    command,
    fetch_by_function,
    put,
    role,
    task_of_the_service,
    template,
    until_ended,
)

__all__ = ["template"]

pytestmark = [pytest.mark.long, pytest.mark.emulator, pytest.mark.timeout(600)]


@pytest.fixture
async def stack(tmp_path: Path, template: Template) -> AsyncIterator[Enforced]:
    async with enforced(tmp_path / "emulator", template) as stack:
        yield stack


def needed(stack: Enforced, template: Template, who: str) -> set[Right]:
    """What a role has needed until now. It must have been allowed to."""
    name = role(template, who)
    found = used(stack.calls(name), stack.tables, stack.outputs["DeadLetters"])
    assert found - granted(template, name) == set(), f"{who} did what its policies do not allow"
    return found


async def until_needed(stack: Enforced, template: Template, who: str, right: Right) -> None:
    async with asyncio.timeout(100):
        while right not in needed(stack, template, who):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


def of_control(template: Template, action: str) -> Right:
    return f"dynamodb:{action}", output_id(template, "ControlTable")


async def test_pages_whose_turns_are_hours_away_are_put_aside_and_found_again(
    stack: Enforced, template: Template
) -> None:
    far, reading = of_control(template, "PartiQLInsert"), of_control(template, "Scan")
    settings = {"rate": 0.0005, "allow_private": True, "lease": 60}
    with demo_site() as site:
        await put(stack, FULL["seedsKey"], "\n".join(f"{site.seeds[0]}?{number}" for number in range(5)))
        await put(stack, f"{FULL['seedsKey']}.settings.json", json.dumps(settings))
        begun = await call(stack, template, "ScheduleFunction", {"time": "2026-11-29T06:00:00Z"})
        assert begun["new"] == 5
        assert far in needed(stack, template, "ScheduleFunction")
    # What is on the queues is lost, and with it what is to fetch the pages that were put aside.
    await asyncio.to_thread(empty_the_lanes, stack)
    janitor = stack.role(role(template, "JanitorFunction"))
    function = template["Resources"][output_id(template, "JanitorFunction")]["Properties"]
    state = stack.resolved(function["Environment"]["Variables"]["CRAWLER_STATE"])
    swept = await stack.run("-m", "crawler", "sweep", env={**janitor, "CRAWLER_STATE": state})
    assert swept.code == 0, swept.output
    assert {reading, far} & needed(stack, template, "JanitorFunction") == {reading}


def empty_the_lanes(stack: Enforced) -> None:
    lanes = Lanes(stack)
    for lane in ("FrontierHigh", "FrontierNormal", "FrontierLow"):
        lanes.sqs.purge_queue(QueueUrl=lanes.url(stack.outputs[lane]))


async def test_a_paused_crawl_is_parked_and_fetched_when_it_goes_on(stack: Enforced, template: Template) -> None:
    parking, feeding = of_control(template, "PartiQLInsert"), of_control(template, "PartiQLUpdate")
    with demo_site() as site:
        await paused(stack, "one", site.seeds)
        async with task_of_the_service(stack, template):
            await until_needed(stack, template, "task", parking)
            await command(stack, "resume", "--crawl", "one")
            await until_needed(stack, template, "task", feeding)
            await until_ended(stack)
        await paused(stack, "two", site.seeds)
        assert await fetch_by_function(stack, template) > 0
        assert parking in needed(stack, template, "FetcherFunction")


async def paused(stack: Enforced, crawl: str, seeds: Iterable[str]) -> None:
    """A crawl whose first pages wait on the queues, though nobody is to fetch them."""
    rest = ("--rate", "0", "--allow-private", "--contact", "a@b.example", "--lease", "60", "--crawl", crawl)
    await command(stack, "seed", *seeds, *rest)
    await command(stack, "pause", "--crawl", crawl)
