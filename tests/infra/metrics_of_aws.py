"""What AWS itself writes for the resources of the stack, as its user guides list it; and what of our own."""

from __future__ import annotations

from crawler.telemetry.names import CRAWL, NAMESPACE, STACK, Fleet, Ledger, Watch

Kind = tuple[str, str, frozenset[str]]
"""Namespace, name and names of the dimensions of a metric."""

RESOURCES = {
    "QueueName": "AWS::SQS::Queue",
    "TableName": "AWS::DynamoDB::Table",
    "ClusterName": "AWS::ECS::Cluster",
    "ServiceName": "AWS::ECS::Service",
    "FunctionName": "AWS::Lambda::Function",
    "LogGroupName": "AWS::Logs::LogGroup",
}
"""What a dimension names."""

_SERVICES = {
    ("AWS/SQS", "QueueName"): (
        "ApproximateAgeOfOldestMessage ApproximateNumberOfMessagesDelayed ApproximateNumberOfMessagesNotVisible "
        "ApproximateNumberOfMessagesVisible NumberOfEmptyReceives NumberOfMessagesDeleted NumberOfMessagesReceived "
        "NumberOfMessagesSent SentMessageSize"
    ),
    # Only some of DynamoDB's metrics are kept by table alone, without an operation beside it.
    ("AWS/DynamoDB", "TableName"): (
        "ConsumedReadCapacityUnits ConsumedWriteCapacityUnits ReadThrottleEvents WriteThrottleEvents "
        "TimeToLiveDeletedItemCount ConditionalCheckFailedRequests"
    ),
    ("AWS/ECS", "ClusterName ServiceName"): "CPUUtilization MemoryUtilization",
    ("AWS/Lambda", "FunctionName"): "AsyncEventsDropped ConcurrentExecutions Duration Errors Invocations Throttles",
    ("AWS/Logs", "LogGroupName"): "IncomingBytes IncomingLogEvents",
}

OF_AWS: set[Kind] = {
    (namespace, name, frozenset(dimensions.split()))
    for (namespace, dimensions), names in _SERVICES.items()
    for name in names.split()
}

OUR_OWN: set[Kind] = {
    *((NAMESPACE, name, frozenset({STACK})) for kind in (Fleet, Ledger, Watch) for name in kind),
    *((NAMESPACE, name, frozenset({STACK, CRAWL})) for name in Ledger),
}
