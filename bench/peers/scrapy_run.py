"""Scrapy as its documentation shows it (`plain`) and as an expert would tune it (`tuned`)."""

# mypy: ignore-errors
# Scrapy need not be installed.

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urldefrag, urljoin

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from selectolax.lexbor import LexborHTMLParser

SKIP = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".zip", ".gz", ".mp4", ".css", ".js", ".ico")
SETTINGS = {
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "DOWNLOAD_DELAY": 0,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    "AUTOTHROTTLE_ENABLED": False,
    "FEEDS": {f"file://{os.environ['OUT']}/items.jsonl": {"format": "jsonlines"}},
}
TUNED = {
    "COOKIES_ENABLED": False,
    "REFERER_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
    "DEPTH_STATS_VERBOSE": False,
    "LOG_LEVEL": "WARNING",
    "SPIDER_MIDDLEWARES": {
        "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
        "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
        "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    },
    "DOWNLOADER_MIDDLEWARES": {
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
    },
}


class Plain(scrapy.Spider):
    name = "plain"
    start_urls = (os.environ["SEED"],)
    links = LinkExtractor()

    def parse(self, response: Any, **_: Any) -> Iterator[Any]:
        if not isinstance(response, scrapy.http.TextResponse):
            return
        title = response.css("title::text").get()
        yield {"url": response.url, "status": response.status, "title": title, "length": len(response.body)}
        for link in self.links.extract_links(response):
            yield response.follow(link.url)


class Tuned(Plain):
    """Lexbor for the links, a set in front of Scrapy's filter, unused middlewares off."""

    name = "tuned"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.seen: set[str] = set()

    def parse(self, response: Any, **_: Any) -> Iterator[Any]:
        if not isinstance(response, scrapy.http.TextResponse):
            return
        tree = LexborHTMLParser(response.body)
        title, base_element, base = tree.css_first("title"), tree.css_first("base[href]"), response.url
        if base_element:
            base = urljoin(base, base_element.attributes["href"])
        yield {
            "url": response.url,
            "status": response.status,
            "title": title and title.text(),
            "length": len(response.body),
        }
        for anchor in tree.css("a[href]"):
            attributes = anchor.attributes
            if "nofollow" in (attributes.get("rel") or ""):
                continue
            url = urldefrag(urljoin(base, (attributes.get("href") or "").strip()))[0]
            if url not in self.seen and url.startswith(("http://", "https://")) and not url.endswith(SKIP):
                self.seen.add(url)
                yield scrapy.Request(url)


spider, settings = {"plain": (Plain, SETTINGS), "tuned": (Tuned, {**SETTINGS, **TUNED})}[sys.argv[1]]
process = CrawlerProcess(settings)
process.crawl(spider)
process.start()
