"""The operating guide against what there is: settings, outputs, alarms, commands and links."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec
import pytest

from crawler.entrypoints.cli import cli
from infra.config import StackConfig
from tests import command
from tests.emulator import ROOT, Template, of_type
from tests.infra.stacks import full

DOCS = ROOT / "docs"
GUIDE = (DOCS / "operating.md").read_text()


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return full(tmp_path_factory, "both")


def anchors(text: str) -> set[str]:
    """The headings of a page as links name them."""
    return {heading.strip().lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def test_each_setting_has_its_row_with_its_default() -> None:
    (table,) = re.findall(r"\| setting \|.*?\n\n", GUIDE, re.DOTALL)
    rows = [line.split("|")[1:3] for line in table.strip().splitlines()[2:]]
    named = {name: defaults for names, defaults in rows for name in re.findall(r"`(\w+)`", names)}
    fields = {field.encode_name: field for field in msgspec.structs.fields(StackConfig)}
    assert named.keys() == fields.keys()
    for name, field in fields.items():
        if field.default and name != "lease":
            shown = "true" if field.default is True else str(field.default)
            assert shown in named[name], name


def test_each_alarm_leads_to_its_entry_in_the_runbook(everything: Template) -> None:
    links = {
        found[1]
        for alarm in of_type(everything, "AWS::CloudWatch::Alarm").values()
        if (found := re.search(r"Runbook: docs/operating\.md#([\w-]+)", alarm["AlarmDescription"]))
    }
    runbook = anchors(GUIDE.partition("## Runbook")[2].partition("\n## ")[0])
    assert links == runbook


def test_outputs_and_saved_queries_that_the_guide_names_exist(everything: Template) -> None:
    outputs = set(everything["Outputs"])
    named = set(re.findall(r"outputs? `(\w+)`", GUIDE)) | set(re.findall(r"`(Frontier\w+)`", GUIDE))
    assert named
    assert named <= outputs
    saved = {query["Name"].lstrip("/") for query in _queries(everything)}
    runbook = re.sub(r"\s+", " ", GUIDE.partition("## Runbook")[2])
    quoted = set(re.findall(r'"([A-Z][^"]+)"(?!:)', runbook))  # with a colon behind: what a log says
    assert quoted
    assert quoted <= saved


def _queries(template: Template) -> list[dict[str, str]]:
    return [{"Name": _text(query["Name"])} for query in of_type(template, "AWS::Logs::QueryDefinition").values()]


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "".join(map(_text, value["Fn::Join"][1])) if "Fn::Join" in value else ""
    return str(value)


def test_each_command_that_the_guide_uses_exists() -> None:
    shown = command.run("--help").stdout
    known = set(re.findall(r"^  (\w+) ", shown, re.MULTILINE))
    used = set(re.findall(r"(?:bin/|`)crawler ([a-z]+)", GUIDE))
    assert {"seed", "status", "pause", "resume", "cost"} <= used
    assert used <= known


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.name)
def test_each_option_that_a_page_gives_to_a_command_exists(page: Path) -> None:
    text = page.read_text()
    for line in [
        *re.findall(r"`crawler ([^`]+)`", text),
        *re.findall(r"^    (?:\.venv/bin/)?crawler (.+)$", text, re.M),
    ]:
        words = line.partition("#")[0].split()
        found: click.Command = cli
        while isinstance(found, click.Group) and words and words[0] in found.commands:
            found = found.commands[words.pop(0)]
        known = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.match("--[a-z]", word)}
        assert used <= known | {"--help"}, f"crawler {line}"


@pytest.mark.parametrize("page", sorted(page.name for page in DOCS.glob("*.md")))
def test_links_between_pages_lead_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", (DOCS / page).read_text()):
        there = DOCS / target if target else DOCS / page
        assert there.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(there.read_text()), f"{page}: {target}#{anchor}"
