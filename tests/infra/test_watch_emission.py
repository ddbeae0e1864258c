"""What a run really writes is what the dashboard, the alarms and the saved queries read, and nothing else."""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest

from crawler.janitor import running
from crawler.loop import Worker
from crawler.state.open import open_state
from crawler.telemetry.names import Fleet, Ledger, Watch
from crawler.telemetry.report import Report
from infra.queries import QUERIES
from tests import command
from tests.aws.proxy import Proxy
from tests.emulator import Template, of_type
from tests.infra.alarm_evaluation import alarms
from tests.infra.metrics_of_aws import OF_AWS, OUR_OWN
from tests.infra.watched import START, Site, Watched, stopped
from tests.telemetry.emf_rules import metrics_of

COMMANDS = {"fields", "filter", "limit", "pattern", "sort", "stats"}
FUNCTIONS = {"bin", "count", "count_distinct", "earliest", "ispresent", "latest", "max", "min", "strlen", "sum"}
WORDS = {"and", "asc", "as", "by", "desc", "in", "like", "not"}
OF_LOGS = {"@timestamp", "@message", "@logStream"}
OF_LAMBDA = {"type", "record.status", "record.errorType", "record.requestId"}
"""Fields of what Lambda writes of a call."""


@pytest.mark.emulator
async def test_a_run_writes_every_metric_and_no_other(
    watched: Watched, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether a crawl is found complete does not matter here, and finding out takes its time.
    monkeypatch.setattr(running, "ASK_AGAIN", 0.0)
    async with Site(200, 301, 404, 500, 999) as site, Site(429) as refusing, Site(500) as strict, Site(1) as slow:
        await watched.seed(site.url, refusing.url.replace("127.0.0.1", "refusing.localhost"))
        await watched.seed(strict.url, "--max-attempts", "1", "--crawl", "strict")
        proxy.fail("BatchExecuteStatement", 400, "ThrottlingException")
        worker = watched.worker(endpoint=proxy.endpoint)
        for each, pages in ((site, 4), (refusing, 1), (strict, 1)):
            await each.until_asked(pages)
        lines = await stopped(worker)
        async with watched.janitor() as janitor:
            await janitor.look()
            await janitor.look()
        await watched.seed(slow.url, "--crawl", "slow")
        lines += await held_and_given_back(watched, slow)
        slow.released.set()
    for line in lines:
        if "_aws" in line:
            metrics_of(line)  # which CloudWatch must take
        watched.metrics.put_line(line, START)
    ours = {kind for kind in watched.metrics.keys() if not kind[0].startswith("AWS/")}  # noqa: SIM118
    assert ours == OUR_OWN


async def held_and_given_back(watched: Watched, slow: Site) -> list[str]:
    """The lines of a minute that ends while a page is being fetched, and of one in which it is given back."""
    state = await open_state(watched.address, worker="w")
    try:
        worker = Worker(state, "", name="w", crawl="slow")
        report = Report(worker, watched.address, "w")
        working = asyncio.create_task(worker.run())
        await slow.until_asked(1)
        held = report.minute(time.time())
        worker.stop()
        worker.stop()
        await working
        return [held.decode(), report.minute(time.time()).decode()]
    finally:
        await state.close()


def test_alarms_read_metrics_that_somebody_writes(template: Template) -> None:
    for name, alarm in alarms(template, "News").items():
        for namespace, metric, dimensions in alarm.keys:
            assert (namespace, metric, frozenset(key for key, _ in dimensions)) in OF_AWS | OUR_OWN, name


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The members of what a worker writes, and the names of all metrics."""
    state = tmp_path_factory.mktemp("crawl") / "state.sqlite"
    seeded = command.run("seed", "http://127.0.0.1:9/", "--state", str(state), "--contact", "a@b.example")
    assert seeded.returncode == 0, seeded.stderr
    worked = command.run(
        "work", "--until-complete", "--state", str(state), "--store", str(state.parent), env={"CRAWLER_METRICS": "emf"}
    )
    assert worked.returncode == 0, worked.stderr
    lines = [json.loads(line) for line in worked.stdout.splitlines()]
    assert {line["event"] for line in lines} == {"started", "minute", "stopped"}
    return {name for line in lines for name in line} | {*Fleet, *Ledger, *Watch}


@pytest.mark.parametrize("title", QUERIES)
def test_saved_queries_read_fields_that_somebody_writes(title: str, fields: set[str]) -> None:
    named = set()
    made: set[str] = set()
    for step in re.split(r"^\s*\|", QUERIES[title], flags=re.MULTILINE):
        plain = re.sub(r'"[^"]*"|/(?:\\.|[^/\n])+/', " ", step) if "/" in step and "like" in step else step
        plain = re.sub(r'"[^"]*"', " ", plain)
        verb, rest = plain.split(maxsplit=1)
        assert verb in COMMANDS
        assert set(re.findall(r"(\w+)\(", rest)) <= FUNCTIONS
        aliases = set(re.findall(r"\bas (\w+)", rest))
        words = set(re.findall(r"@?\b[A-Za-z][\w.]*(?![\w.(])", re.sub(r"\b\d+[mh]\b", " ", rest)))
        named |= words - aliases - made - WORDS
        made |= aliases
    assert named
    assert named <= fields | OF_LOGS | OF_LAMBDA


def test_saved_queries_are_in_a_folder_of_the_stack_and_read_all_its_logs(template: Template) -> None:
    queries = of_type(template, "AWS::Logs::QueryDefinition").values()
    groups = set(of_type(template, "AWS::Logs::LogGroup"))
    assert len(queries) == len(QUERIES)
    for query in queries:
        stack, title = query["Name"]["Fn::Join"][1]
        assert stack == {"Ref": "AWS::StackName"}
        assert title.removeprefix("/") in QUERIES
        assert {group["Ref"] for group in query["LogGroupNames"]} == groups
