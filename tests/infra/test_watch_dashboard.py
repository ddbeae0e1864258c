"""The dashboard: readable rows, and no widget without somebody who writes what it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra import picture
from tests.emulator import Template, of_type
from tests.infra.metrics_of_aws import OF_AWS, OUR_OWN, RESOURCES, Kind
from tests.infra.stacks import KINDS, full

SEARCH = re.compile(r"SEARCH\('\{(\w+),([\w,]+)\} MetricName=\"(\w+)\" Stack=\"AWS::StackName\"', 'Maximum', \d+\)")

Widget = dict[str, Any]


@pytest.fixture(scope="module", params=KINDS)
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The template for each kind of fetchers."""
    return full(tmp_path_factory, request.param)


def rows(template: Template) -> list[list[Widget]]:
    """Widgets by row: each begins with a text at the left edge, as high as all that is beside it."""
    found: list[list[Widget]] = []
    for widget in picture.widgets(template):
        if widget["x"] == 0:
            found.append([])
        found[-1].append(widget)
    return found


def shown(widget: Widget) -> Iterator[tuple[Kind, dict[str, str]]]:
    """The metrics of a widget, and what their dimensions say."""
    for metric in widget["properties"].get("metrics", []):
        if isinstance(metric[0], str):
            namespace, name, *dimensions = metric[:-1]
            values = dict(zip(dimensions[::2], dimensions[1::2], strict=True))
            yield (namespace, name, frozenset(values)), values
        elif found := SEARCH.fullmatch(metric[0]["expression"]):
            yield (found[1], found[3], frozenset(found[2].split(","))), {}
        else:
            assert "SEARCH" not in metric[0]["expression"]


def test_each_row_begins_with_how_to_read_it(template: Template) -> None:
    questions = [row[0]["properties"]["markdown"].splitlines()[0] for row in rows(template)]
    assert questions == [
        "### Is anything wrong?",
        "### Is it moving?",
        "### Is it polite?",
        "### Is it healthy?",
        "### Are there workers?",
        "### Does the table keep up?",
        "### What does it cost?",
    ]
    for text, *beside in rows(template):
        assert text["type"] == "text"
        assert {widget["type"] for widget in beside} <= {"metric", "alarm"}


def test_the_widgets_fill_the_grid_without_gaps(template: Template) -> None:
    top = 0
    for row in rows(template):
        height = row[0]["height"]
        cells = {
            (x, y)
            for widget in row
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert cells == {(x, y) for x in range(24) for y in range(top, top + height)}
        assert sum(widget["width"] * widget["height"] for widget in row) == len(cells)
        top += height


def test_texts_speak_of_what_is_beside_them(template: Template) -> None:
    for text, *beside in rows(template):
        named = set(re.findall(r"\*\*(.+?)\*\*", text["properties"]["markdown"]))
        assert named
        there = " ".join(
            part
            for widget in beside
            for part in (
                widget["properties"]["title"],
                *(picture.legend(widget["properties"]) if widget["type"] == "metric" else ()),
                *widget["properties"].get("alarms", []),
            )
        )
        for name in named:
            assert name.lower() in there.lower(), name


def test_every_metric_is_one_that_somebody_writes(template: Template) -> None:
    kinds = [(kind, values) for row in rows(template) for widget in row for kind, values in shown(widget)]
    assert kinds
    for kind, values in kinds:
        assert kind in OF_AWS | OUR_OWN
        for dimension, value in values.items():
            if dimension in RESOURCES:
                assert template["Resources"][value]["Type"] == RESOURCES[dimension]
            else:
                assert (dimension, value) == ("Stack", "AWS::StackName")


def test_every_metric_of_our_own_is_shown(template: Template) -> None:
    names = {name for row in rows(template) for widget in row for (_, name, _), _ in shown(widget)}
    assert {name for _, name, _ in OUR_OWN} <= names


def test_what_is_said_to_be_a_minute_is_a_minute(template: Template) -> None:
    (body,) = of_type(template, "AWS::CloudWatch::Dashboard").values()
    assert '"periodOverride":"inherit"' in json.dumps(body).replace("\\", "")
    for row in rows(template):
        for widget in row:
            if "a minute" in widget["properties"].get("title", ""):
                assert {metric[-1]["period"] for metric in widget["properties"]["metrics"]} == {60}


def test_metric_math_names_metrics_of_its_own_widget(template: Template) -> None:
    for row in rows(template):
        for widget in row:
            metrics = widget["properties"].get("metrics", [])
            ids = {metric[-1]["id"] for metric in metrics if "id" in metric[-1]}
            expressions = [metric[0]["expression"] for metric in metrics if isinstance(metric[0], dict)]
            used = {word for text in expressions if "SEARCH" not in text for word in re.findall(r"\b[a-z]\w*", text)}
            assert used == ids


def test_the_dashboard_is_within_the_limits_of_cloudwatch(template: Template) -> None:
    counts = [len(list(shown(widget))) for row in rows(template) for widget in row]
    assert max(counts) <= 500
    assert sum(counts) <= 2500
    assert len(of_type(template, "AWS::CloudWatch::Dashboard")) == 1


def test_only_what_there_is_is_shown(template: Template) -> None:
    namespaces = {kind[0] for row in rows(template) for widget in row for kind, _ in shown(widget)}
    service = of_type(template, "AWS::ECS::Service")
    assert ("AWS/ECS" in namespaces) == bool(service)
    functions = {values.get("FunctionName") for row in rows(template) for w in row for _, values in shown(w)} - {None}
    mapped = {of["FunctionName"]["Ref"] for of in of_type(template, "AWS::Lambda::EventSourceMapping").values()}
    assert mapped <= functions
    assert len(functions) == len(mapped) + 1, "the janitor's"


def test_all_alarms_that_tell_somebody_are_on_it(template: Template) -> None:
    ((_, status), *_) = rows(template)
    telling = {name for name, alarm in of_type(template, "AWS::CloudWatch::Alarm").items() if name.startswith("Alarms")}
    assert set(status["properties"]["alarms"]) == telling


def test_the_picture_in_the_docs_is_this_dashboard(tmp_path_factory: pytest.TempPathFactory) -> None:
    drawn = picture.widgets(full(tmp_path_factory, "both"))
    assert picture.render(drawn) == picture.PICTURE.read_text(encoding="utf-8"), "make picture"
