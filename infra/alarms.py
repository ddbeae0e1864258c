"""The alarms: few, each with what it means and where the runbook says what to do, all to one topic.

Missing data is treated by what silence means. Workers are silent while there is nothing to crawl, and name nothing that
did not happen; SQS is silent about queues that nobody has touched for hours: silence is good. The janitor never rests,
and touches the queues: its silence is the alarm.
"""

from __future__ import annotations

import math as numbers

from aws_cdk import ArnFormat, Aws, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from crawler.telemetry.names import Fleet, Watch
from infra.frontier import LANE_RETENTION, Frontier
from infra.metrics import CrawlerMetrics, math, total

RUNBOOK = "docs/operating.md"

OLDEST = Duration.days(LANE_RETENTION.to_days() // 2)
"""Half of the time for which a message is kept: there is as much left to act in."""

STALLED_MINUTES = 15
"""Without a page finished, and at least three looks of the janitor: starting a fleet from nothing takes less."""

THROTTLES = 100
"""Refused requests in five minutes, three times in a row: a table that grows into its load is through before."""

ERROR_SHARE = 30
"""Per cent of all attempts that failed."""

DEAD_SHARE = 20
"""Per cent of the pages that ended as dead letters."""

FEWEST = 100
"""Attempts, or pages, in five minutes below which a share says nothing."""

_FIVE = Duration.minutes(5)
_SILENCE_IS_GOOD = cloudwatch.TreatMissingData.NOT_BREACHING
_ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD


class Alarms(Construct):
    """`all` of them tell `topic`, which `email` is subscribed to unless it is empty.

    `function` is the fetcher's, where functions fetch; `janitor` is the janitor's; `schedule` begins recurring crawls,
    where there are any.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        metrics: CrawlerMetrics,
        frontier: Frontier,
        function: lambda_.IFunction | None,
        janitor: lambda_.IFunction,
        schedule: lambda_.IFunction | None,
        email: str,
    ) -> None:
        super().__init__(scope, name)
        self.topic = self._topic(email)
        self.all: list[cloudwatch.Alarm] = []
        self._frontier(frontier)
        self._progress(metrics)
        self._workers(metrics, function)
        self._failures(metrics)
        self._throttles(metrics)
        self._janitor(metrics, janitor)
        if schedule:
            self._schedule(schedule)

    def _topic(self, email: str) -> sns.Topic:
        """CloudWatch cannot publish with the key that AWS manages for SNS, and a key of our own would cost more than
        all alarms: what goes through are names of alarms and their numbers, over TLS and unencrypted at rest."""
        topic = sns.Topic(self, "Topic", enforce_ssl=True)
        alarms = Stack.of(self).format_arn(
            service="cloudwatch", resource="alarm", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
        )
        # A policy of its own replaces the one by which the account's services may publish.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Alarms",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={
                    "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                    "ArnLike": {"aws:SourceArn": alarms},
                },
            )
        )
        if email:
            topic.add_subscription(subscriptions.EmailSubscription(email))
        return topic

    def _frontier(self, frontier: Frontier) -> None:
        dead = frontier.dead_letters
        self._alarm(
            "DeadLetters",
            "Messages killed a worker each time they were delivered, or were no messages of the crawler",
            # The janitor takes them away at its next look, perhaps before SQS has counted them.
            total(
                {
                    "waiting": dead.metric_approximate_number_of_messages_visible(statistic="Maximum", period=_FIVE),
                    "taken": dead.metric_number_of_messages_received(statistic="Sum", period=_FIVE),
                },
                "messages",
                _FIVE,
            ),
            threshold=0,
        )
        ages: dict[str, cloudwatch.IMetric] = {
            lane.lower(): queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=_FIVE)
            for lane, queue in frontier.lanes.items()
        }
        self._alarm(
            "OldestMessage",
            f"A URL has waited for {OLDEST.to_days():.0f} days; after {LANE_RETENTION.to_days():.0f} SQS drops it",
            math(f"MAX([{', '.join(ages)}])", ages, "seconds", _FIVE),
            threshold=OLDEST.to_seconds(),
        )

    def _progress(self, metrics: CrawlerMetrics) -> None:
        looks = max(3, numbers.ceil(STALLED_MINUTES / metrics.look.to_minutes()))
        self._alarm(
            "NoProgress",
            f"Pages are left to crawl and for {looks * metrics.look.to_minutes():.0f} minutes none was finished",
            metrics.seen(Watch.STALLED),
            threshold=0,
            # One more: looks are not exactly a period apart, and one may be missing.
            of=(looks, looks + 1),
        )

    def _workers(self, metrics: CrawlerMetrics, function: lambda_.IFunction | None) -> None:
        self._alarm(
            "WorkersLost",
            "A worker fell silent without a goodbye: it was killed, or ran out of memory",
            metrics.seen(Watch.WORKERS_LOST, statistic="Sum"),
            threshold=0,
        )
        if function is not None:
            self._alarm(
                "FunctionErrors",
                "Invocations of the fetcher function fail again and again: by time, by memory or by a fault",
                function.metric_errors(statistic="Sum", period=_FIVE),
                threshold=0,
                of=(3, 6),
            )

    def _failures(self, metrics: CrawlerMetrics) -> None:
        def sums(*names: Fleet) -> dict[str, cloudwatch.IMetric]:
            return {name.lower(): metrics.fleet(name, period=_FIVE) for name in names}

        self._alarm(
            "ErrorShare",
            f"More than {ERROR_SHARE} % of the attempts failed: answered 429 or 5xx, or not at all",
            # An answer 5xx is in `retried`, and the last one of a page in `dead`.
            math(
                f"IF(pages + FILL(retried, 0) >= {FEWEST}, "
                "100 * (FILL(dead, 0) + FILL(retried, 0)) / (pages + FILL(retried, 0)), 0)",
                sums(Fleet.PAGES, Fleet.DEAD, Fleet.RETRIED),
                "% of attempts",
                _FIVE,
            ),
            threshold=ERROR_SHARE,
            of=(3, 3),
        )
        self._alarm(
            "DeadShare",
            f"More than {DEAD_SHARE} % of the pages ended as dead letters",
            math(
                f"IF(pages >= {FEWEST}, 100 * FILL(dead, 0) / pages, 0)",
                sums(Fleet.PAGES, Fleet.DEAD),
                "% of pages",
                _FIVE,
            ),
            threshold=DEAD_SHARE,
            of=(3, 3),
        )

    def _throttles(self, metrics: CrawlerMetrics) -> None:
        # The workers count parts of batches, too, and not only what the tables refuse: four metrics of DynamoDB would
        # say less for four times the price.
        self._alarm(
            "Throttled",
            "AWS refuses requests for their rate, and the crawl waits",
            metrics.fleet(Fleet.THROTTLES, period=_FIVE),
            threshold=THROTTLES,
            of=(3, 3),
        )

    def _janitor(self, metrics: CrawlerMetrics, janitor: lambda_.IFunction) -> None:
        self._alarm(
            "LostAndFound",
            "Pages were recorded and on no queue; they were queued again, and should never have been lost",
            metrics.seen(Watch.SWEPT, statistic="Sum"),
            threshold=0,
        )
        self._alarm(
            "Janitor",
            "The janitor fails or does not run: no crawl is completed, and half of these alarms are blind",
            # Lambda writes a 0 for each invocation that succeeds, so nothing at all means that there was none.
            janitor.metric_errors(statistic="Sum", period=metrics.look),
            threshold=0,
            of=(3, 3),
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def _schedule(self, schedule: lambda_.IFunction) -> None:
        self._alarm(
            "Schedule",
            "A recurring crawl did not begin, or not with all of its list",
            # A call that fails is repeated, which may be all it takes; this counts the events given up after that.
            schedule.metric("AsyncEventsDropped", statistic="Sum", period=_FIVE),
            threshold=0,
        )

    def _alarm(
        self,
        name: str,
        meaning: str,
        metric: cloudwatch.IMetric,
        *,
        threshold: float,
        of: tuple[int, int] = (1, 1),
        missing: cloudwatch.TreatMissingData = _SILENCE_IS_GOOD,
    ) -> None:
        """An alarm when `of[0]` of the last `of[1]` values are above the threshold."""
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_description=f"{meaning}. Runbook: {RUNBOOK}#{anchor(name)}",
            metric=metric,
            comparison_operator=_ABOVE,
            threshold=threshold,
            datapoints_to_alarm=of[0],
            evaluation_periods=of[1],
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        self.all.append(alarm)


def anchor(name: str) -> str:
    """Where the runbook speaks of an alarm: `DeadLetters` is under the heading "Dead letters"."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")
