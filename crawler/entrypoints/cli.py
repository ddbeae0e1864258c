"""The command line. Commands translate and wire, nothing else.

Exit codes: 0 complete, 1 `verify` found a fault, 2 wrong usage or unreachable state, 130 stopped and resumable.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from crawler import __version__
from crawler.entrypoints import options
from crawler.entrypoints.cli_repair import dead, purge, sweep
from crawler.entrypoints.cli_robots import robots
from crawler.entrypoints.cli_sql import sql
from crawler.entrypoints.cost import cost
from crawler.entrypoints.identity import interrupt_on_stop_signals, leave_at_once
from crawler.entrypoints.pause import pause, resume
from crawler.entrypoints.shell import STOPPED, need_state, run
from crawler.entrypoints.status import ORDERS
from crawler.errors import CrawlerError, UsageError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Start with:  crawler crawl https://example.com/",
)
@click.version_option(__version__, message="crawler %(version)s")
def cli() -> None:
    """Crawl web sites: nothing lost, one polite rate per host over all workers, WARC and Parquet as the result.

    On one machine `crawler crawl URL` does everything. On shared state (a stack on AWS), `seed` adds URLs,
    any number of `work` processes fetch, `status` shows, `merge` and `verify` finish. `dead` shows and retries the
    pages that could not be had.
    """


@cli.command()
@click.argument("urls", nargs=-1, metavar="URL...")
@options.option("--out", metavar="DIR", help="Folder for state and output (default: ./crawl-<host>).")
@options.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Fetcher processes on this machine (default: the cores).",
)
@click.option("--fresh", is_flag=True, help="Start over: drop this crawl's state and output first.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.sitemap_option
@options.cookies_option
@options.crawl_settings
@options.common
def crawl(urls: tuple[str, ...], **given: Any) -> None:
    """Crawl from URL... on this machine, with nothing to set up.

    Run it again to resume; a complete crawl sends no request. Ctrl-C stops cleanly, a second Ctrl-C at once.
    """
    from crawler.entrypoints import crawl as command
    from crawler.entrypoints.cookies import given_cookies
    from crawler.entrypoints.dropping import start_over
    from crawler.entrypoints.places import STATE_FILE, crawl_folder
    from crawler.entrypoints.progress import Progress
    from crawler.entrypoints.seeds import check
    from crawler.entrypoints.show import done
    from crawler.entrypoints.summary import summary

    settings = options.given_settings(given)
    cookies = given_cookies(given["cookies"], settings)
    check(urls, given["crawl"], settings)
    if given["extract"]:
        from crawler.extractor import check_function

        run(check_function(given["extract"]), given)
    # With a state elsewhere there is a folder only if one is asked for: then it is the store.
    folder = None if given["state"] and not given["out"] else crawl_folder(given["out"], (*urls, *given["sitemap"]))
    order = command.CrawlOrder(
        seeds=urls,
        state=given["state"] or f"{folder}/{STATE_FILE}",
        store=given["store"] or (str(folder) if given["state"] and folder else None),
        crawl=given["crawl"],
        processes=given["processes"] or os.cpu_count() or 1,
        settings=settings,
        cookies=cookies,
        sitemaps=given["sitemap"],
    )
    if given["fresh"]:
        order = run(start_over(order, ask=not given["yes"]), given)
    outcome = run(command.crawl(order, Progress(quiet=given["quiet"] or given["as_json"])), given)
    text = run(summary(order.state, outcome, as_json=given["as_json"]), given)
    done(text, given)
    raise click.exceptions.Exit(STOPPED if outcome.stopped else 0)


@cli.command()
@click.argument("urls", nargs=-1, metavar="[URL...]")
@options.option(
    "--file", metavar="F", help="Read URLs from a file, one a line, # begins a comment; '-' is standard input."
)
@options.sitemap_option
@options.cookies_option
@options.crawl_settings
@options.common
def seed(urls: tuple[str, ...], **given: Any) -> None:
    """Add URLs to a crawl on shared state. Options hold for every worker of the crawl."""
    from crawler.entrypoints.commands import seed as command
    from crawler.entrypoints.cookies import given_cookies
    from crawler.entrypoints.seeds import check, seed_lines
    from crawler.entrypoints.show import done

    if not urls and not given["file"] and not given["sitemap"]:
        raise UsageError("give URLs, --file F with one URL a line ('-' reads standard input), or --sitemap URL")
    settings = options.given_settings(given)
    cookies = given_cookies(given["cookies"], settings)
    check(urls if not given["file"] else (), given["crawl"], settings)
    lines = seed_lines(urls, given["file"])
    work = command(
        need_state(given),
        given["store"],
        given["crawl"],
        lines,
        settings,
        cookies,
        given["sitemap"],
        as_json=given["as_json"],
    )
    done(run(work, given), given)


@cli.command()
@click.option(
    "--until-complete",
    is_flag=True,
    help="Leave with 0 when nothing is pending, leased or delayed. A paused crawl is waited for.",
)
@options.option(
    "--concurrency",
    type=click.IntRange(1, 4096),
    metavar="N",
    help="Requests in flight (default: the crawl's, else 64).",
)
@options.option("--name", metavar="NAME", help="This worker's name, unique in the fleet (default: made up).")
@options.option(
    "--metrics", type=click.Choice(["emf"]), help="Print metrics once a minute, in the format that CloudWatch reads."
)
@options.option(
    "--heartbeat",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Touch this file every few seconds; when it is minutes old this process hangs.",
)
@click.option("--supervised", is_flag=True, hidden=True, help="Stop when standard input ends.")
@options.common
def work(**given: Any) -> None:
    """Run one fetcher process on shared state, for every crawl on it (or --crawl ID), until SIGTERM."""
    from crawler.entrypoints.worker import work as command
    from crawler.loop import Exit

    outcome = run(
        command(
            need_state(given),
            given["store"],
            crawl=given["crawl"],
            name=given["name"],
            concurrency=given["concurrency"],
            until_complete=given["until_complete"],
            metrics=given["metrics"] is not None,
            heartbeat=given["heartbeat"],
            supervised=given["supervised"],
        ),
        given,
    )
    raise click.exceptions.Exit(0 if outcome is Exit.COMPLETE else STOPPED)


@cli.command()
@click.option("--watch", is_flag=True, help="Refresh in place until Ctrl-C.")
@click.option(
    "--hosts", is_flag=True, help="Show hosts too: what waits, when the next turn is, how fast they are and why."
)
@click.option(
    "--sort", type=click.Choice(list(ORDERS)), default="pending", help="What hosts are sorted by (default: pending)."
)
@click.option(
    "--top", type=click.IntRange(min=1), default=20, metavar="N", help="Hosts to show (default 20; --json has all)."
)
@options.common
def status(**given: Any) -> None:
    """Show counts, skips and deaths by reason, rates and workers alive."""
    from crawler.entrypoints.commands import HostsWanted
    from crawler.entrypoints.commands import status as command

    hosts = HostsWanted(given["sort"], given["top"]) if given["hosts"] else None
    run(command(need_state(given), given["crawl"], hosts, watch=given["watch"], as_json=given["as_json"]), given)


@cli.command()
@options.common
def verify(**given: Any) -> None:
    """Prove that nothing was lost: the ledger sums up and the archive agrees. Exit 1 and a list when not.

    Every page discovered is done, skipped, dead or still to do; each has its row, each row its record, each record its
    row; no URL is twice in the merged file; no host was asked faster than the rate. It may run beside workers.
    """
    from crawler.entrypoints.verifying import verify as command

    sound = run(
        command(need_state(given), given["store"], given["crawl"], as_json=given["as_json"], quiet=given["quiet"]),
        given,
    )
    raise click.exceptions.Exit(0 if sound else 1)


@cli.command()
@options.common
def merge(**given: Any) -> None:
    """Merge the rows of all workers into one Parquet file, one row a URL."""
    from crawler.entrypoints.commands import merge as command
    from crawler.entrypoints.show import done

    done(run(command(need_state(given), given["store"], given["crawl"], as_json=given["as_json"]), given), given)


for command in (robots, cost, pause, resume, dead, sweep, purge, sql):
    cli.add_command(command)


def main() -> None:
    """Entry point: every error is one line on standard error that says what to do; a traceback only with -vv."""
    try:
        interrupt_on_stop_signals()
        code = cli(standalone_mode=False) or 0
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        code = 2
        sys.stderr.write(error.format_message() + "\n")
    except BaseException as error:
        code, text = _ending(error)
        if text:
            # A wrong option is met before logging is set up.
            if "-vv" in sys.argv or logging.getLogger().isEnabledFor(logging.DEBUG):
                traceback.print_exception(error)
            sys.stderr.write(f"crawler: {' '.join(text.split())}\n")
    if code == STOPPED:
        leave_at_once(code)
    sys.exit(code)


def _ending(error: BaseException) -> tuple[int, str]:
    """The exit code for what ended a command, and what to say of it; "" for nothing."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return STOPPED, ""
    if isinstance(error, SystemExit):  # whoever read has gone: the library leaves with 1, as `verify` does for a fault
        _give_up_output()
        return STOPPED, ""
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        return 2, error.format_message() + (f" (see {context.command_path} --help)" if context else "")
    if isinstance(error, CrawlerError):
        return 2, str(error)
    if isinstance(error, ModuleNotFoundError):
        # The worker's image leaves out what only merges.
        return 2, f"this needs {error.name}, which is not installed here: pip install crawler"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        _give_up_output()
        return 2, f"cannot write {error.filename or 'the output'}: {error.strerror}"
    return 2, f"internal fault: {type(error).__name__}: {error} (run again with -vv for the traceback)"


def _give_up_output() -> None:
    """Drop what standard output does not take: the interpreter would try again at its end, and leave with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
