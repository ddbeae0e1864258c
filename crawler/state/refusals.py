"""Crawls that a state does not take, for it could not do what they ask for."""

from __future__ import annotations

from crawler.config import CrawlSettings
from crawler.errors import UsageError


def exact_only(settings: CrawlSettings) -> None:
    """Raise UsageError for a crawl that wants an approximate visited set."""
    if settings.dedup != "exact":
        raise UsageError(f"--dedup {settings.dedup}: only a state on redis://... has that")


def no_module_in_functions(settings: CrawlSettings) -> None:
    """Raise UsageError for a crawl that wants a module of the user's, where nothing but functions fetches."""
    if settings.extract:
        raise UsageError(
            f"--extract {settings.extract}: on this stack functions fetch, which have no module of yours: "
            "deploy it with -c fetchers=fargate, or crawl without"
        )
