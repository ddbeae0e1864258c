"""Fetchers on Lambda: a function that the frontier's queues call with batches of URLs."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config import BATCHING_WINDOW, StackConfig
from infra.frontier import Frontier
from infra.function import PythonFunction

UNBATCHED = 10
"""So many messages Lambda takes from a queue without waiting for more."""


class FetcherFunction(PythonFunction):
    """One function, and an event source for each lane.

    Lambda knows no order among event sources: each has pollers of its own and calls the function as often as its own
    `max_concurrency` allows, whatever the other lanes hold. So no lane ever starves another, and priority is a matter
    of shares: the low lane gets a quarter of the calls that each of the others may have at a time. A host's pace holds
    across lanes, for its turns are taken at one gate.

    No reserved concurrency: it would be taken from the account's other functions, and a new account has none to give.
    `max_concurrency` holds the sources back before they call, so while the account's limit has room for all three no
    call is refused, which would count as a delivery of its messages.
    """

    def __init__(self, scope: Construct, name: str, *, config: StackConfig, state: str, frontier: Frontier) -> None:
        super().__init__(
            scope,
            name,
            kind="fetcher",
            entry="fetcher_function",
            state=state,
            memory=config.function_memory,
            seconds=config.function_timeout,
            log_days=config.log_days,
            # Links go to the queues that call it. Lambda takes that for a runaway and stops it after 16 rounds, deeper
            # than which every site is; what ends a crawl here is that no URL is ever new twice.
            feeds_itself=True,
        )
        for lane, queue in frontier.lanes.items():
            lambda_.EventSourceMapping(
                self,
                lane,
                target=self.function,
                event_source_arn=queue.queue_arn,
                batch_size=config.function_batch,
                max_batching_window=Duration.seconds(BATCHING_WINDOW) if config.function_batch > UNBATCHED else None,
                max_concurrency=calls_at_a_time(lane, config.max_workers),
                # One page that fails leaves the others of its batch done.
                report_batch_item_failures=True,
            )


def calls_at_a_time(lane: str, most: int) -> int:
    """Most calls at a time for a lane; 2 is the least that Lambda takes."""
    return most if lane != "Low" else max(2, most // 4)
