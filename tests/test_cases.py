"""Each oddity of the web that is known has a test that names it, and a row in the table that names the test.

The marks are read from the text of the test files, so that a file that cannot be imported here counts too.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = TESTS.parent / "docs" / "cases.md"

LAST = {"A": 16, "B": 11, "C": 17, "D": 7, "E": 7, "F": 17, "G": 8, "H": 6}
MISSING = {"A13", "C13", "D05", "E05", "G03"}
"""Numbers that are not in use."""

CASES = {f"{letter}{number:02}" for letter, last in LAST.items() for number in range(1, last + 1)} - MISSING


def marked() -> dict[str, set[str]]:
    """Tests by the id that they name, as `file::name` below tests/."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for case in ids(node.decorator_list):
                    found[case].add(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def ids(decorators: list[ast.expr]) -> Iterator[str]:
    """The ids in `@pytest.mark.case("A01", ...)`."""
    for decorator in decorators:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.case":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def rows() -> dict[str, str]:
    """The table's rows by id."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {match[1]: line for line in lines if (match := re.match(r"\| ([A-Z]\d\d) \|", line))}


def test_every_case_has_a_test_and_no_mark_names_an_unknown_one() -> None:
    assert set(marked()) == CASES


def test_the_table_has_a_row_for_every_case() -> None:
    assert set(rows()) == CASES


def test_the_table_names_tests_that_exist_and_carry_the_mark() -> None:
    tests = marked()
    for case, row in rows().items():
        named = re.findall(r"`tests/([\w/]+\.py::\w+)`", row)
        assert named, f"{case} names no test"
        assert set(named) <= tests[case], case
