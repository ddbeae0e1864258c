"""Recurring crawls: begin one of the same URLs again and again."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.config import StackConfig
from infra.function import PythonFunction

MEMORY = 512
"""MiB."""

LONGEST = 300
"""Seconds: some hundred thousand URLs."""


class Schedule(PythonFunction):
    """A function that begins a crawl, and the rule that calls it.

    A call that fails is repeated twice, and adds the same URLs to the same crawl: a crawl is named after the time for
    which it was scheduled.
    """

    def __init__(self, scope: Construct, name: str, *, config: StackConfig, state: str) -> None:
        super().__init__(
            scope,
            name,
            kind="fetcher",
            entry="schedule_function",
            state=state,
            memory=MEMORY,
            seconds=LONGEST,
            log_days=config.log_days,
            environment={"CRAWLER_SEEDS_KEY": config.seeds_key},
        )
        self.function.configure_async_invoke(retry_attempts=2, max_event_age=Duration.hours(1))
        events.Rule(
            self,
            "Rule",
            schedule=events.Schedule.expression(config.schedule),
            targets=[targets.LambdaFunction(self.function)],
        )
