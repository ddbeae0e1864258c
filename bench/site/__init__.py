"""The site that the measurements crawl: static files for a few thousand realistic pages on twenty hosts."""
