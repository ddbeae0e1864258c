"""A worker's archive as a process that can be killed: `python -m tests.archive.writer FOLDER WORKER`.

Adds pages for ever; prints the URL of each page once the flush that covers it has returned. With `--stall` it writes
three pages, prints them, and waits to be killed.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time

from crawler.archive.archive import Archive
from crawler.archive.stores import open_store
from tests.archive.making import add, crawl


async def main(folder: str, worker: str, stall: bool) -> None:
    archive = await Archive.open(open_store(folder), crawl(), worker)
    for batch in itertools.count():
        urls = []
        for number in range(3):
            add(archive, f"{worker}/{batch}/{number}")
            urls.append(f"http://site.test/{worker}/{batch}/{number}")
        await archive.flush()
        sys.stdout.write("".join(f"{url}\n" for url in urls))
        sys.stdout.flush()
        if stall:
            time.sleep(600)  # noqa: ASYNC251 - to be killed here


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], "--stall" in sys.argv))
