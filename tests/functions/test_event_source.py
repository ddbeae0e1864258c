"""The deployed stack with functions as fetchers: its queues call them, in the emulator, until the crawl is complete."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests import command
from tests.e2e.test_aws import Stack, assert_result
from tests.emulator import Template, assembly, of_type, read_template, running
from tests.local_site import DemoSite

pytestmark = [pytest.mark.e2e, pytest.mark.emulator]

CONTEXT = {"fetchers": "lambda", "maxWorkers": 2}

BACK_AFTER = 60
"""Seconds of visibility timeout in this file, longer than any call: nobody waits six minutes for what a call left."""


@pytest.fixture
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with functions, in an emulator of its own: nothing else is to be called by it."""
    folder = assembly(tmp_path_factory, CONTEXT)
    template: Template = copy.deepcopy(read_template(folder / "Crawler.template.json"))
    for queue in of_type(template, "AWS::SQS::Queue").values():
        if "VisibilityTimeout" in queue:
            queue["VisibilityTimeout"] = BACK_AFTER
    with running(tmp_path_factory.mktemp("emulator")) as emulator:
        yield Stack(emulator, template, assembly=folder)


def finish(stack: Stack, site: DemoSite) -> None:
    """Wait until everything was fetched, and let the janitor look."""
    command.wait_for(lambda: stack.status()["done"] == len(site.truth.fetched), 100)
    client = stack.emulator.client("lambda")

    def complete() -> bool:
        answer = client.invoke(FunctionName=stack.outputs["JanitorFunction"])
        assert "FunctionError" not in answer, answer["Payload"].read()
        return bool(stack.status()["state"] == "complete")

    command.wait_for(complete, 60)


def test_functions_crawl_the_deployed_stack_to_its_end(demo_site: DemoSite, deployed: Stack) -> None:
    seeded = deployed.run("seed", *demo_site.seeds, "--rate", "0", "--allow-private")
    assert seeded.returncode == 0, seeded.stderr
    finish(deployed, demo_site)
    fetched = demo_site.fetched()
    assert set(fetched) == demo_site.truth.fetched
    assert set(fetched.values()) == {1}
    assert_result(demo_site, deployed)
