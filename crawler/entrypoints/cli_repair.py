"""The command line's second half: what to do about pages that failed, and about crawls that are over."""

from __future__ import annotations

from typing import Any

import click

from crawler.entrypoints import options
from crawler.entrypoints.shell import need_state, run
from crawler.errors import UsageError

reason_option = click.option("--reason", metavar="R", help="Only those with this reason, for example http-500 or dns.")
host_option = click.option("--host", metavar="H", help="Only those of this host.")


@click.group()
def dead() -> None:
    """Dead letters: pages given up after --max-attempts failures. See them, see why, try them again.

    `list` shows how many there are, by reason and host; `show URL` why one of them is; `retry` queues them again.
    """


@dead.command("list")
@reason_option
@host_option
@options.common
def dead_list(reason: str | None, host: str | None, **given: Any) -> None:
    """Count dead letters by reason and host. With --reason or --host, list their URLs."""
    from crawler.entrypoints.dead import show_list

    run(show_list(need_state(given), given["store"], given["crawl"], reason, host, as_json=given["as_json"]), given)


@dead.command("show")
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@options.common
def dead_show(urls: tuple[str, ...], **given: Any) -> None:
    """Show why URLs are dead.

    For each its last error, its failures with their times, and where it was found. Exit 2 when one is no dead letter.
    """
    from crawler.entrypoints.dead import show

    run(show(need_state(given), given["store"], given["crawl"], urls, as_json=given["as_json"]), given)


@dead.command("retry")
@click.argument("urls", nargs=-1, metavar="[URL...]")
@click.option(
    "--rate",
    type=options.PerSecond(),
    metavar="N/s",
    help="Spread them over time: 5/s, 300/m, 1000/h (default: all now).",
)
@reason_option
@host_option
@click.option("--all", "everything", is_flag=True, help="Every dead letter of the crawl.")
@options.common
def dead_retry(
    urls: tuple[str, ...],
    rate: float | None,
    reason: str | None,
    host: str | None,
    everything: bool,
    **given: Any,
) -> None:
    """Queue dead letters again, with all their attempts.

    Which: those named, those with --reason or of --host, or --all. This fetches nothing. Workers take them if there
    are any; else run `crawler crawl` on the same folder, or `crawler work`, again. The crawl's own --rate holds for
    them as for all pages. Doing it twice does no harm.
    """
    from crawler.entrypoints.dead import retry
    from crawler.entrypoints.show import done

    if urls and (everything or reason or host):
        raise UsageError("name URLs, or choose with --reason, --host or --all, not both")
    if not (urls or everything or reason or host):
        raise UsageError("say which: URLs, --reason R, --host H, or --all for every dead letter of the crawl")
    work = retry(need_state(given), given["store"], given["crawl"], urls, reason, host, rate, as_json=given["as_json"])
    done(run(work, given), given)


@click.command()
@options.common
def sweep(**given: Any) -> None:
    """Queue again what is neither queued nor finished. Normally there is nothing: 0.

    Such a page is the trace of a crash that nothing else has mended. It is safe at any time.
    """
    from crawler.entrypoints.commands import sweep as command
    from crawler.entrypoints.show import done

    done(run(command(need_state(given), given["store"], given["crawl"], as_json=given["as_json"]), given), given)


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask; also while workers fetch pages of the crawl.")
@options.common
def purge(**given: Any) -> None:
    """Drop a crawl's state and keep its output.

    What goes: its record, all it knows of its pages, its dead letters, its place in the queue. It asks first; where
    nobody can be asked it needs --yes. It cannot be undone, and `verify` needs the state. While workers fetch pages
    of the crawl it refuses; with --yes their work is lost, and a last page may still be written to the output. Other
    crawls on the state are not touched. To drop the output too and begin again: `crawl --fresh`.
    """
    from crawler.entrypoints.dropping import purge as command
    from crawler.entrypoints.show import done

    work = command(need_state(given), given["store"], given["crawl"], ask=not given["yes"], as_json=given["as_json"])
    done(run(work, given), given)
