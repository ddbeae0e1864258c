"""The rights that the guide says a command needs are enough: what it asks AWS for is in its row."""

from __future__ import annotations

import asyncio
import itertools
import re
from pathlib import Path

import pytest

from tests import command
from tests.aws.proxy import Proxy
from tests.broken_site import broken_site
from tests.emulator import ROOT, Emulator
from tests.test_seed_script import Queues

pytestmark = [pytest.mark.long, pytest.mark.e2e, pytest.mark.emulator]

names = itertools.count(1)

ACTIONS = {
    "BatchExecuteStatement": "PartiQLInsert",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "DeleteMessageBatch": "DeleteMessage",
    "SendMessageBatch": "SendMessage",
}
"""Operations whose right has another name. PartiQL has a right for each kind of statement; the guide names them all."""

ELSEWHERE = {"?", "DescribeStacks", "GetMetricData", "ListStackResources"}
"""Operations on neither queues nor tables."""


def rights(name: str) -> set[str]:
    """The actions on queues and tables that the guide gives to a command."""
    guide = (ROOT / "docs" / "operating.md").read_text()
    rows = [
        line.split("|")[1:4] for line in guide.splitlines() if re.match(r"\| `\w.*\| .*BatchGetItem|\| `dead", line)
    ]
    (row,) = [row for row in rows if f"`{name}`" in row[0]]
    text = " ".join(row[1:])
    found = set(re.findall(r"\b[A-Z]\w+[a-z][A-Z]\w+|\bScan\b", text))
    for other in re.findall(r"as `([\w ]+)`", text):
        found |= rights(other)
    return found


async def test_each_command_asks_for_no_more_than_its_row_names(
    emulator: Emulator, proxy: Proxy, tmp_path: Path
) -> None:
    stack = Queues(emulator, f"Rights{next(names)}")
    env = {
        **stack.env,
        "AWS_ENDPOINT_URL": proxy.endpoint,
        "CRAWLER_STATE": f"aws://{stack.name}",
        "CRAWLER_CRAWL": "c",
    }

    async def used(*arguments: str, right: str) -> None:
        proxy.seen.clear()
        result = await asyncio.to_thread(command.run, *arguments, env=env, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        asked = {ACTIONS.get(operation, operation) for operation in set(proxy.seen) - ELSEWHERE}
        assert asked, arguments
        assert asked <= rights(right), arguments

    with broken_site({"/": '<a href="/a">a</a><a href="/broken">b</a>', "/a": "a"}, "/broken") as site:
        options = ("--rate", "0", "--allow-private", "--max-attempts", "1")
        await used("seed", site.url(), *options, right="seed")
        await used("seed", site.url("/a"), "--rate", "50", right="seed")
        await used("status", right="status")
        await used("status", "--hosts", right="status")
        await used("pause", right="pause")
        await used("resume", right="resume")
        await used("work", "--until-complete", right="work")
        for name in ("verify", "merge", "cost"):
            await used(name, right=name)
        await used("sql", "status-by-host", right="sql")
        await used("dead", "list", right="dead list")
        await used("dead", "show", site.url("/broken"), right="dead list")
        await used("dead", "retry", "--all", right="dead retry")
        await used("sweep", right="sweep")
        await used("work", "--until-complete", right="work")
        await used("purge", "--yes", right="purge")
