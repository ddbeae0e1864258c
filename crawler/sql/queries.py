"""The saved queries: text files beside this one, each beginning with its title and description as comments.

They keep to what Athena (Trino) and DuckDB have in common. The table is named `pages`. The crawl's id is each query's
one parameter, `?`; Athena allows it in a WHERE clause only. Of a recursive query Athena wants column names for each of
its parts, leaves it after ten steps, and reads the table again for each step.
"""

from __future__ import annotations

from importlib import resources

import msgspec


class SavedQuery(msgspec.Struct, frozen=True):
    """`text` is the whole file."""

    name: str
    title: str
    description: str
    text: str


def saved_queries() -> tuple[SavedQuery, ...]:
    """All of them, by name."""
    texts = {file.name: file.read_text() for file in resources.files("crawler.sql").iterdir() if ".sql" in file.name}
    return tuple(_read(name.removesuffix(".sql"), text) for name, text in sorted(texts.items()))


def _read(name: str, text: str) -> SavedQuery:
    comments = []
    for line in text.splitlines():
        if not line.startswith("-- "):
            break
        comments.append(line.removeprefix("-- "))
    return SavedQuery(name, comments[0], " ".join(comments[1:]), text)
