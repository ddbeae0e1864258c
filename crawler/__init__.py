"""A crawl pipeline: nothing lost, one polite rate per host over a whole fleet, the price in view."""

__version__ = "0.1.0"
