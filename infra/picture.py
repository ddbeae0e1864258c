"""A picture of the dashboard's layout, from the template: `python -m infra.picture` writes docs/dashboard.svg.

It shows where each widget is, what it is called, and what its text and its lines are called. There is no data in it:
what the lines look like only a crawl can tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aws_cdk import App

from infra.config import stack_config
from infra.stack import CrawlerStack

PICTURE = Path(__file__).parents[1] / "docs" / "dashboard.svg"

CONTEXT = {"fetchers": "both", "schedule": "rate(1 day)", "seedsKey": "seeds/daily.txt"}
"""The stack in the picture: it has all widgets and alarms."""

COLUMN, UNIT = 55, 48
"""Pixels of the dashboard's grid, across and down; about those of a console window 1,400 pixels wide."""

MARGIN = 4
PADDING = 12
LINE = 17
"""Pixels from one line of text to the next."""

LETTER = 6.8
"""Pixels of a letter, on average; and a little more, so that no text leaves its box."""

COLORS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")

STYLE = """
    text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #16191f }
    .title { font-weight: 600; font-size: 13px }
    .head { font-weight: 700; font-size: 16px }
    .bold { font-weight: 700 }
    .italic { font-style: italic }
    .code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 11px }
    .box { fill: #fff; stroke: #d5dbdb }
    .axis { stroke: #aab7b8; fill: none }
    .mark { stroke: #d13212; stroke-dasharray: 4 3 }
    .small { font-size: 10px; fill: #d13212 }
    .ok { fill: #eaf6ec; stroke: #1d8102 }
"""

Widget = Mapping[str, Any]
Words = list[tuple[str, str]]
"""Words, with the space that follows, and their classes."""


def widgets(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The dashboard's widgets, with logical ids in the places of the names that deployment puts in."""
    (dashboard,) = (r for r in template["Resources"].values() if r["Type"] == "AWS::CloudWatch::Dashboard")
    parts = dashboard["Properties"]["DashboardBody"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else part.get("Ref") or part["Fn::GetAtt"][0] for part in parts)
    found: list[dict[str, Any]] = json.loads(text)["widgets"]
    return found


def render(found: Sequence[Widget]) -> str:
    """An SVG file of these widgets."""
    width = max(widget["x"] + widget["width"] for widget in found) * COLUMN
    height = max(widget["y"] + widget["height"] for widget in found) * UNIT
    drawn = "\n".join(line for widget in found for line in _widget(widget))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect width="{width}" height="{height}" fill="#f2f3f3"/>\n{drawn}\n</svg>\n'
    )


def _widget(widget: Widget) -> Iterator[str]:
    left, top = widget["x"] * COLUMN + MARGIN, widget["y"] * UNIT + MARGIN
    width, height = widget["width"] * COLUMN - 2 * MARGIN, widget["height"] * UNIT - 2 * MARGIN
    yield f'<g transform="translate({left} {top})">'
    yield f'<rect class="box" width="{width}" height="{height}" rx="3"/>'
    properties = widget["properties"]
    if widget["type"] == "text":
        yield from _markdown(properties["markdown"], width)
    else:
        yield f'<text class="title" x="{PADDING}" y="{PADDING + 10}">{escape(properties["title"])}</text>'
        draw = _alarms if widget["type"] == "alarm" else _graph
        yield from draw(properties, width, height)
    yield "</g>"


def _graph(properties: Mapping[str, Any], width: int, height: int) -> Iterator[str]:
    """Empty axes, levels, and the legend."""
    names = list(legend(properties))
    rows = list(_rows([(name, "") for name in names], width, extra=4))
    bottom = height - PADDING - LINE * len(rows) - 4
    yield f'<path class="axis" d="M{PADDING} {PADDING + 24}V{bottom}H{width - PADDING}"/>'
    for number, level in enumerate(properties.get("annotations", {}).get("horizontal", [])):
        y = PADDING + 44 + number * 24
        yield f'<path class="mark" d="M{PADDING} {y}H{width - PADDING}"/>'
        yield f'<text class="small" x="{PADDING + 6}" y="{y - 4}">{level["value"]:g}: {escape(level["label"])}</text>'
    colors = iter(COLORS * len(names))
    for number, row in enumerate(rows):
        x, y = float(PADDING), bottom + LINE * (number + 1)
        for name, _ in row:
            yield f'<rect x="{x:g}" y="{y - 9}" width="10" height="10" fill="{next(colors)}"/>'
            yield f'<text x="{x + 14:g}" y="{y}">{escape(name)}</text>'
            x = round(x + (len(name) + 4) * LETTER, 1)


def _alarms(properties: Mapping[str, Any], width: int, _: int) -> Iterator[str]:
    names = [name.removeprefix("Alarms")[:-8] for name in properties["alarms"]]
    across = 4
    each = (width - 2 * PADDING) // across
    for number, name in enumerate(names):
        x, y = PADDING + number % across * each, PADDING + 22 + number // across * 34
        yield f'<rect class="ok" x="{x}" y="{y}" width="{each - 6}" height="28" rx="3"/>'
        yield f'<text x="{x + 8}" y="{y + 18}">{escape(name)}</text>'


def legend(properties: Mapping[str, Any]) -> Iterator[str]:
    """The names of a graph's lines, without those that are only there to compute with."""
    for metric in properties["metrics"]:
        options = metric[-1]
        if options.get("visible", True):
            yield "one line a crawl" if "PROP(" in options["label"] else options["label"]


def _markdown(text: str, width: int) -> Iterator[str]:
    """Headings, paragraphs, bold, italic and code, which is all that the dashboard's texts have."""
    y = PADDING - 2
    for block in re.split(r"\n\n|(?<=\?)\n", text):
        if block.startswith("### "):
            y += LINE + 2
            yield f'<text class="head" x="{PADDING}" y="{y}">{escape(block[4:])}</text>'
            y += 8
            continue
        for row in _rows(list(_words(block)), width):
            y += LINE
            spans = "".join(
                f'<tspan class="{kind}">{escape(word)}</tspan>' if kind else escape(word) for word, kind in row
            )
            yield f'<text x="{PADDING}" y="{y}">{spans}</text>'
        y += 7


def _words(paragraph: str) -> Iterator[tuple[str, str]]:
    kinds = {"**": "bold", "*": "italic", "`": "code"}
    for opening, marked, plain in re.findall(r"(\*\*|\*|`)(.+?)\1|([^*`]+)", " ".join(paragraph.split())):
        yield from ((word, kinds.get(opening, "")) for word in re.findall(r"\S+ ?| ", marked or plain))


def _rows(words: Words, width: int, extra: int = 0) -> Iterator[Words]:
    """Words broken into lines; `extra` letters go with each."""
    most = (width - 2 * PADDING) / LETTER
    row: Words = []
    used = 0
    for word in words:
        takes = len(word[0]) + extra
        if row and used + takes > most:
            yield row
            row, used = [], 0
        row.append(word)
        used += takes
    if row:
        yield row


def main() -> None:
    with TemporaryDirectory() as folder:
        app = App(outdir=folder, analytics_reporting=False)
        stack = CrawlerStack(app, stack_config(CONTEXT))
        template = app.synth().get_stack_artifact(stack.artifact_id).template
    PICTURE.write_text(render(widgets(template)), encoding="utf-8")


if __name__ == "__main__":
    main()
