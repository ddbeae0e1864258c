"""The command about a site's robots.txt."""

from __future__ import annotations

from typing import Any

import click

from crawler.entrypoints import options
from crawler.entrypoints.shell import run


@click.command()
@click.argument("url", metavar="URL")
@click.option("--file", metavar="F", help="Explain this file instead of the site's.")
@options.option("--user-agent", metavar="UA", help="As a crawl with this User-Agent header.")
@options.option("--contact", metavar="URL-or-mail", help="As a crawl with this contact.")
@options.option("--allow-private", is_flag=True, default=None, help="Permit loopback and private addresses.")
@options.json_option
@options.quietness
def robots(url: str, **given: Any) -> None:
    """Explain what robots.txt says about URL: allowed or not, by which group and which rule, on which line.

    The file is fetched as a crawl would fetch it. Exit code 0 whether the URL is allowed or not.
    """
    from crawler.config import crawl_settings
    from crawler.entrypoints.robots import robots as command
    from crawler.entrypoints.show import out

    settings = crawl_settings(options.given_settings(given))
    out(run(command(url, settings, given["file"], as_json=given["as_json"]), given))
