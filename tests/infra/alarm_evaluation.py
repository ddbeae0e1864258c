"""CloudWatch's part of an alarm: metrics gathered from what was really written, and alarms of the template over them.

As CloudWatch's user guide says in "Using metric math", "Alarm evaluation" and "Configuring how CloudWatch alarms treat
missing data". Simpler than the original: an alarm is evaluated once a period, at its end, and not every minute.
"""

from __future__ import annotations

import ast
import json
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from tests.emulator import Template, of_type

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanOrEqualToThreshold": operator.le,
}

Key = tuple[str, str, frozenset[tuple[str, str]]]
"""Namespace, name and dimensions, which together are one metric."""

Value = float | None
"""None: there is no datapoint."""


class State(StrEnum):
    OK = "OK"
    ALARM = "ALARM"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"


class Metrics:
    """What was written: samples by metric and Unix time."""

    def __init__(self) -> None:
        self._samples: dict[Key, list[tuple[float, float, float]]] = defaultdict(list)

    def put(self, namespace: str, name: str, dimensions: Mapping[str, str], at: float, value: float) -> None:
        self._put((namespace, name, frozenset(dimensions.items())), at, value, 1)

    def put_line(self, line: str, at: float | None = None) -> None:
        """Every metric of a line of the embedded metric format, at its own time or at the given one; a line that is
        none is no metric."""
        try:
            told = json.loads(line)
            meta = told["_aws"]
        except (ValueError, TypeError, KeyError):
            return
        for directive in meta["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                dimensions = frozenset((name, str(told[name])) for name in names)
                for metric in directive["Metrics"]:
                    key = (directive["Namespace"], metric["Name"], dimensions)
                    when = meta["Timestamp"] / 1000 if at is None else at
                    for value, count in _values(told[metric["Name"]]):
                        self._put(key, when, value, count)

    def keys(self) -> set[tuple[str, str, frozenset[str]]]:
        """Namespace, name and dimensions' names of all that was written."""
        return {(namespace, name, frozenset(n for n, _ in dims)) for namespace, name, dims in self._samples}

    def value(self, key: Key, statistic: str, begin: float, end: float) -> Value:
        """A statistic of a metric over a time, its end excluded."""
        found = sorted((value, count) for at, value, count in self._samples.get(key, []) if begin <= at < end)
        if not found:
            return None
        count, total = sum(c for _, c in found), sum(v * c for v, c in found)
        plain = {"Sum": total, "SampleCount": count, "Average": total / count}
        return {**plain, "Minimum": found[0][0], "Maximum": found[-1][0]}[statistic]

    def _put(self, key: Key, at: float, value: float, count: float) -> None:
        self._samples[key].append((at, value, count))


def _values(told: Any) -> Iterator[tuple[float, float]]:
    """Values of a metric in a line, and how often each occurred: a number, numbers, or a distribution."""
    if isinstance(told, dict):
        yield from zip(told["Values"], told["Counts"], strict=True)
    else:
        yield from ((value, 1) for value in (told if isinstance(told, list) else [told]))


class Alarm:
    """One alarm of a template deployed as stack `stack`; resources are named by their logical ids."""

    def __init__(self, properties: Mapping[str, Any], stack: str) -> None:
        self.description: str = properties["AlarmDescription"]
        self._stack = stack
        self._threshold: float = properties["Threshold"]
        self._breaches = _COMPARISONS[properties["ComparisonOperator"]]
        self._periods: int = properties["EvaluationPeriods"]
        self._needed: int = properties.get("DatapointsToAlarm", self._periods)
        self._missing: str = properties.get("TreatMissingData", "missing")
        self._expression = "only"
        if "Metrics" in properties:
            queries = properties["Metrics"]
            (self._expression,) = [query["Expression"] for query in queries if query.get("ReturnData", True)]
            self._metrics = {
                query["Id"]: (self._key(query["MetricStat"]["Metric"]), query["MetricStat"]["Stat"])
                for query in queries
                if "MetricStat" in query
            }
            (self.period,) = {query["MetricStat"]["Period"] for query in queries if "MetricStat" in query}
        else:
            self._metrics = {"only": (self._key(properties), properties["Statistic"])}
            self.period = properties["Period"]

    @property
    def keys(self) -> list[Key]:
        return [key for key, _ in self._metrics.values()]

    def state(self, metrics: Metrics, now: float, before: State = State.INSUFFICIENT_DATA) -> State:
        """The state at the end of a period, given the one before."""
        # CloudWatch looks somewhat further back than the alarm asks for, and does not say how far.
        begins = [now - (back + 1) * self.period for back in reversed(range(self._periods + 2))]
        values = [self._value(metrics, begin) for begin in begins]
        breaching = [None if value is None else self._breaches(value, self._threshold) for value in values]
        return evaluate(breaching, self._periods, self._needed, self._missing, before)

    def history(self, metrics: Metrics, begin: float, end: float) -> list[State]:
        """The state at the end of each period from `begin` to `end`."""
        states: list[State] = []
        now = begin + self.period
        while now <= end:
            states.append(self.state(metrics, now, states[-1] if states else State.INSUFFICIENT_DATA))
            now += self.period
        return states

    def _value(self, metrics: Metrics, begin: float) -> Value:
        names = {
            name: metrics.value(key, statistic, begin, begin + self.period)
            for name, (key, statistic) in self._metrics.items()
        }
        return compute(self._expression, names)

    def _key(self, metric: Mapping[str, Any]) -> Key:
        dimensions = {d["Name"]: resolved(d["Value"], self._stack) for d in metric["Dimensions"]}
        return metric["Namespace"], metric["MetricName"], frozenset(dimensions.items())


def alarms(template: Template, stack: str) -> dict[str, Alarm]:
    """The alarms that tell somebody, by what their names begin with: `DeadLetters`."""
    return {
        name.removeprefix("Alarms")[:-8]: Alarm(properties, stack)
        for name, properties in of_type(template, "AWS::CloudWatch::Alarm").items()
        if name.startswith("Alarms")
    }


def resolved(value: Any, stack: str) -> str:
    """A name in the template: text, the stack's own name, or the logical id of a resource."""
    if isinstance(value, str):
        return value
    name = value.get("Ref") or value["Fn::GetAtt"][0]
    return stack if name == "AWS::StackName" else str(name)


def evaluate(breaches: Sequence[bool | None], periods: int, needed: int, missing: str, before: State) -> State:
    """The state, by whether each datapoint of the evaluation range, oldest first, is beyond the threshold.

    `needed` of `periods` datapoints make an alarm. Real datapoints count before missing ones, also older ones from
    further back in the range; only what they leave open is filled as `missing` says.
    """
    real = [value for value in breaches if value is not None]
    recent = list(breaches[-periods:])
    if None in recent:
        recent = list(real[-periods:]) if len(real) >= periods else list(real)
    breaching, lacking = recent.count(True), periods - len(recent)
    if breaching >= needed:
        return State.ALARM
    if not lacking:
        return State.OK
    if missing == "breaching":
        return State.ALARM if breaching + lacking >= needed else State.OK
    if missing == "notBreaching" or False in recent:
        return State.OK
    if missing == "ignore":
        return before
    return State.ALARM if breaching else State.INSUFFICIENT_DATA


_BINARY: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


def compute(expression: str, names: Mapping[str, Value]) -> Value:
    """A metric math expression at one moment. Its syntax, as far as it is used here, is also Python's."""

    def value(node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=number):
                assert isinstance(number, int | float)
                return number
            case ast.Name(id=name):
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
                one, other = value(left), value(right)
                if one is None or other is None or (isinstance(op, ast.Div) and not other):
                    return None
                return float(_BINARY[type(op)](one, other))
            case ast.Call(func=ast.Name(id="FILL"), args=[inner, filling]):
                return value(filling) if (filled := value(inner)) is None else filled
            case ast.Call(func=ast.Name(id="IF"), args=[condition, then, otherwise]):
                if (holds := value(condition)) is None:
                    return None
                return value(then) if holds else value(otherwise)
            case ast.Call(func=ast.Name(id="MAX" | "SUM" as name), args=[ast.List(elts=elements)]):
                found = [number for element in elements if (number := value(element)) is not None]
                return (max(found) if name == "MAX" else sum(found)) if found else None
            case _:
                raise AssertionError(f"not known of metric math: {ast.unparse(node)}")

    return value(ast.parse(expression, mode="eval").body)
