"""The crawl state on one Redis: exact claims, one script a call, any number of workers on any number of machines.

Everything of a state lies under one hash tag, `{name}:…` with the name from the address (`?name=`, "crawler" by
default), and every key of a crawl carries its crawl's number. A claim takes a page of a crawl and a turn at a gate
that all crawls share, in one step; a cluster runs a script on one slot only; so a state is one slot. A cluster takes
it (the client follows it to its node), several states spread over the nodes, one state does not: one core of a server
serves some thousands of pages a second. The keys are described in `common.lua`.
"""

from crawler.state.redis.state import RedisState

__all__ = ["RedisState"]
