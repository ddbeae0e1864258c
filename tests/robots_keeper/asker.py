"""A worker process that asks for the rules of several origins at once and prints what it was told.

python -m tests.robots_keeper.asker STATE NAME URL...
"""

from __future__ import annotations

import asyncio
import sys
import time

from crawler import urls
from crawler.config import CrawlSettings
from crawler.fetch import Fetcher
from crawler.model import CrawlRecord
from crawler.robots import Robots
from crawler.robots_keeper import RobotsKeeper
from crawler.state.open import open_state


async def main(address: str, name: str, *pages: str) -> None:
    settings = CrawlSettings(rate=0.0, allow_private=True, user_agent="ExampleBot/1.0")
    state = await open_state(address, worker=name, create=True)
    await state.create(CrawlRecord(id="crawl-1", started_at=time.time(), settings=settings))
    async with Fetcher(settings.user_agent, allow_private=True) as fetcher:
        keeper = RobotsKeeper(state, fetcher, "crawl-1", settings, name)

        async def ask(page: str) -> str:
            rules, _ = await keeper.rules(page, urls.hostname(page), 0.0)
            if isinstance(rules, Robots):
                return f"{page} {rules.allowed(page)}"
            await asyncio.sleep(max(rules.until - time.time(), 0.0))
            return await ask(page)

        print("\n".join(await asyncio.gather(*(ask(page) for page in pages))))
        await keeper.close()
    await state.close()


asyncio.run(main(*sys.argv[1:]))
