"""The yardstick: the crawler that articles show, an asyncio queue and a set around aiohttp and selectolax.

It obeys robots.txt and nofollow, keeps nothing durable, archives nothing, and takes a URL with a tracking parameter
for another page. Kept as such articles write it, so it is not this project's style of work.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import aiohttp
from protego import Protego
from selectolax.lexbor import LexborHTMLParser

SKIP = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".zip", ".gz", ".mp4", ".css", ".js", ".ico")
OUT, SEED = os.environ["OUT"], os.environ["SEED"]
WORKERS = 64


class Crawler:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.queue: asyncio.Queue[str] = asyncio.Queue()
        self.seen: set[str] = set()
        self.robots: dict[str, asyncio.Future[Protego]] = {}
        self.items = Path(OUT, "items.jsonl").open("w")  # noqa: SIM115 - as articles do

    def add(self, url: str) -> None:
        if url not in self.seen:
            self.seen.add(url)
            self.queue.put_nowait(url)

    async def allowed(self, url: str) -> bool:
        host = urlsplit(url).netloc
        rules = self.robots.get(host)
        if rules is None:
            rules = self.robots[host] = asyncio.get_running_loop().create_future()
            try:
                async with self.session.get(f"http://{host}/robots.txt") as answer:
                    rules.set_result(Protego.parse(await answer.text() if answer.status == 200 else ""))
            except Exception:
                rules.set_result(Protego.parse(""))
        return bool((await rules).can_fetch(url, "rigbot"))

    async def worker(self) -> None:
        while True:
            url = await self.queue.get()
            try:
                if await self.allowed(url):
                    await self.fetch(url)
            except Exception as error:
                print("error", url, repr(error))
            finally:
                self.queue.task_done()

    async def fetch(self, url: str) -> None:
        async with self.session.get(url) as answer:
            if answer.status != 200 or "html" not in answer.headers.get("content-type", ""):
                return
            body = await answer.read()
            base = str(answer.url)
        tree = LexborHTMLParser(body)
        title = tree.css_first("title")
        base_element = tree.css_first("base[href]")
        item = {"url": base, "status": 200, "title": title and title.text(), "length": len(body)}
        self.items.write(json.dumps(item) + "\n")
        robots = tree.css_first('meta[name="robots"]')
        if robots and "nofollow" in (robots.attributes.get("content") or ""):
            return
        if base_element:
            base = urljoin(base, base_element.attributes["href"])
        for anchor in tree.css("a[href]"):
            attributes = anchor.attributes
            if "nofollow" in (attributes.get("rel") or ""):
                continue
            link = urldefrag(urljoin(base, (attributes.get("href") or "").strip()))[0]
            if link.startswith(("http://", "https://")) and not link.endswith(SKIP):
                self.add(link)


async def main() -> None:
    connector = aiohttp.TCPConnector(limit=64, limit_per_host=16)
    async with aiohttp.ClientSession(connector=connector) as session:
        crawler = Crawler(session)
        crawler.add(SEED)
        workers = [asyncio.create_task(crawler.worker()) for _ in range(WORKERS)]
        await crawler.queue.join()
        for worker in workers:
            worker.cancel()


asyncio.run(main())
