"""The crawl state in one SQLite file: exact claims, one transaction a call, any number of processes on one machine."""

from crawler.state.sqlite.state import SqliteState

__all__ = ["SqliteState"]
