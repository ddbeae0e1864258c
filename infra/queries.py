"""Saved queries of Logs Insights over what the fetchers write: a line when one starts, one a minute, one when it stops
(`event` tells them apart), and the complaints between. A function writes the one of the minute at each call.

A query reads all lines of its time range, at half a cent a GB. What a host or a page was like is in the archive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from aws_cdk import Aws
from aws_cdk import aws_logs as logs
from constructs import Construct

QUERIES: Mapping[str, str] = {
    # Lines of metrics without an event are the janitor's.
    "Complaints by text": """
        filter not ispresent(event) and @message not like /"_aws"/
        | pattern @message
    """,
    # A traceback is a line after another from a task, and one record from a function.
    "Faults with their tracebacks": r"""
        filter not ispresent(event) and @message like /Traceback|internal fault|^\s+File "|Error\b|errorType/
        | fields @timestamp, @message, @logStream
        | sort @timestamp asc
        | limit 1000
    """,
    "Waiting for AWS": """
        filter @message like /waiting for the (state|archive)/
        | stats count(*) as lines, count_distinct(@logStream) as workers by bin(5m) as time
        | sort time desc
    """,
    "Pages by status, a minute": """
        filter event = "minute"
        | stats sum(Pages) as pages, sum(Answered2xx) as ok, sum(Answered3xx) as moved, sum(Answered4xx) as not_found,
            sum(Answered5xx) as failing, sum(Skipped) as skipped, sum(Dead) as dead, sum(Retried) as retried
            by bin(1m) as time
        | sort time desc
    """,
    "Workers/starts, stops and why": """
        filter event in ["started", "stopped"]
        | fields @timestamp, worker, event, why, pages, seconds, version, backend
        | sort @timestamp desc
        | limit 500
    """,
    "Workers/memory and pages": """
        filter event = "minute"
        | stats earliest(Memory) as first_mib, latest(Memory) as last_mib, max(Memory) as most_mib, sum(Pages) as pages,
            count(*) as minutes by worker
        | sort most_mib desc
    """,
    # A function is frozen between two calls, and ended without being told.
    "Workers/without a goodbye": """
        filter event in ["started", "minute", "stopped"] and worker not like /^function-/
        | stats latest(event) as last_event, max(@timestamp) as last_seen, sum(Pages) as pages, max(Memory) as most_mib
            by worker
        | filter last_event != "stopped"
        | sort last_seen desc
    """,
    "AWS/requests, refusals and dollars a page": """
        filter event = "minute"
        | stats sum(AwsRequests) / sum(Pages) as requests_a_page, sum(Throttles) as refused,
            1000000 * sum(Dollars) / sum(Pages) as dollars_a_million, sum(Pages) as pages by bin(5m) as time
        | sort time desc
    """,
    "AWS/who is refused": """
        filter event = "minute" and Throttles > 0
        | fields @timestamp, worker, Throttles, AwsRequests, Pages
        | sort Throttles desc
        | limit 100
    """,
    "Log bytes a page": """
        stats sum(strlen(@message)) / sum(Pages) as bytes_a_page, sum(strlen(@message)) as bytes, sum(Pages) as pages
            by bin(1h) as time
        | sort time desc
    """,
    # What Lambda itself writes of a call, kept only when it went wrong.
    "Functions cut off": r"""
        filter type like /^platform\./
        | fields @timestamp, type, record.status, record.errorType, record.requestId
        | sort @timestamp desc
        | limit 200
    """,
}
"""By what they are called: `/` makes folders, and CloudWatch takes neither `:` nor `*`."""


class Queries(Construct):
    """The queries, in a folder named after the stack."""

    def __init__(self, scope: Construct, name: str, *, log_groups: Sequence[logs.ILogGroup]) -> None:
        super().__init__(scope, name)
        for title, text in QUERIES.items():
            logs.CfnQueryDefinition(
                self,
                "".join(re.findall(r"\w+", title.title())),
                name=f"{Aws.STACK_NAME}/{title}",
                query_string="\n".join(line.strip() for line in text.strip().splitlines()),
                log_group_names=[group.log_group_name for group in log_groups],
            )
