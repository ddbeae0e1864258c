"""`crawler pause` and `crawler resume`."""

from __future__ import annotations

from typing import Any

import click

from crawler.entrypoints import options
from crawler.entrypoints.shell import need_state, run


@click.command()
@options.common
def pause(**given: Any) -> None:
    """Hand out no page of a crawl until `crawler resume`. Nothing is lost, and no request in flight is cut off.

    What is in flight ends, and the links it finds are added. Workers obey at once, on AWS within five seconds; there,
    a request whose turn was taken by then may start up to twelve seconds later. They do not leave: workers with
    --until-complete and a `crawler crawl` that is running wait and go on when the crawl is resumed. Other crawls on the
    state are not touched. The time of --max-time goes on.
    """
    _command(True, given)


@click.command()
@options.common
def resume(**given: Any) -> None:
    """Let a paused crawl go on, where it was. On AWS that takes up to a minute.

    `crawler crawl` on the folder of a paused crawl does the same.
    """
    _command(False, given)


def _command(paused: bool, given: dict[str, Any]) -> None:
    from crawler.entrypoints.show import done

    done(run(set_paused(need_state(given), given["crawl"], paused, as_json=given["as_json"]), given), given)


async def set_paused(address: str, crawl: str | None, paused: bool, *, as_json: bool) -> str:
    """Pause a crawl or end its pause; says what that changed. It may be repeated."""
    from crawler.entrypoints.commands import json_line, named, opened
    from crawler.entrypoints.status import status_of

    async with opened(address) as state:
        record = await named(state, crawl)
        changed = await (state.pause if paused else state.resume)(record.id)
        status = await status_of(state, record)
    if as_json:
        return json_line({"crawl": record.id, "state": status.state, "paused": status.paused, "changed": changed})
    # Leased ones, too: workers give them back, but those whose requests are in flight.
    name, left = f"crawl {record.id}", status.pending + status.leased
    waiting = "1 page is left" if left == 1 else f"{left:,} pages are left"
    if status.state == "complete":
        return f"{name} is complete: there is nothing to {'pause' if paused else 'resume'}"
    if not changed:
        return f"{name} is paused already" if paused else f"{name} is not paused"
    if paused:
        return f"{name} is paused: {waiting}; `crawler resume` lets it go on"
    workers = "" if status.workers_alive else "; no worker is alive: start `crawler work`, or let the stack do so"
    return f"{name} goes on: {waiting}{workers}"
