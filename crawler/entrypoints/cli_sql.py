"""The command that asks questions of a crawl's result."""

from __future__ import annotations

from typing import Any

import click

from crawler.entrypoints import options
from crawler.entrypoints.shell import need_state, run
from crawler.errors import UsageError


@click.command()
@click.argument("query", required=False, metavar="[NAME|QUERY]")
@options.state_option
@options.store_option
@options.crawl_option
@options.option("--json", "as_json", is_flag=True, help="Print a JSON object a row, for scripts.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values, names first.")
@options.quietness
def sql(query: str | None, **given: Any) -> None:
    """Run SQL over a crawl's merged rows. Without an argument: list the saved queries.

    NAME is a saved query, QUERY a text such as "SELECT host, count(*) FROM pages GROUP BY host". The one table is
    pages, a row a URL; "DESCRIBE pages" shows its columns. The saved queries run in Athena, too.
    """
    from crawler.entrypoints.show import out
    from crawler.entrypoints.sql import Form, catalogue, query_text
    from crawler.entrypoints.sql import sql as command

    if given["as_json"] and given["as_csv"]:
        raise UsageError("--json or --csv, not both")
    if query is None:
        out(catalogue(as_json=given["as_json"]))
        return
    form = Form.JSON if given["as_json"] else Form.CSV if given["as_csv"] else Form.TABLE
    text = query_text(query)
    run(command(need_state(given), given["store"], given["crawl"], text, form), given)
