"""What a state says that remembers every URL exactly, and can do nothing else."""

from __future__ import annotations

from crawler.config import CrawlSettings
from crawler.errors import UsageError


def exact_only(settings: CrawlSettings) -> None:
    """Raise UsageError for a crawl that wants an approximate visited set."""
    if settings.dedup != "exact":
        raise UsageError(f"--dedup {settings.dedup}: only a state on redis://... has that")
