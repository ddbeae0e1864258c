"""What there is in an account, by the types that CloudFormation has for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from tests.emulator import ASSETS, Emulator, Template, unsupported

Thing = tuple[str, str]
"""A type of resource, such as AWS::SQS::Queue, and what tells one such resource from another."""

_LISTED: Mapping[str, Callable[[Emulator], Iterable[str]]] = {
    "AWS::Athena::WorkGroup": lambda a: (
        group["Name"] for group in a.client("athena").list_work_groups()["WorkGroups"] if group["Name"] != "primary"
    ),
    "AWS::CloudWatch::Alarm": lambda a: (
        alarm["AlarmName"] for alarm in a.client("cloudwatch").describe_alarms(MaxRecords=100)["MetricAlarms"]
    ),
    "AWS::CloudWatch::Dashboard": lambda a: (
        board["DashboardName"] for board in a.client("cloudwatch").list_dashboards()["DashboardEntries"]
    ),
    "AWS::DynamoDB::Table": lambda a: a.client("dynamodb").list_tables()["TableNames"],
    "AWS::EC2::InternetGateway": lambda a: (
        gateway["InternetGatewayId"] for gateway in a.client("ec2").describe_internet_gateways()["InternetGateways"]
    ),
    "AWS::EC2::RouteTable": lambda a: (
        table["RouteTableId"] for table in a.client("ec2").describe_route_tables()["RouteTables"]
    ),
    "AWS::EC2::SecurityGroup": lambda a: (
        group["GroupId"] for group in a.client("ec2").describe_security_groups()["SecurityGroups"]
    ),
    "AWS::EC2::Subnet": lambda a: (subnet["SubnetId"] for subnet in a.client("ec2").describe_subnets()["Subnets"]),
    "AWS::EC2::VPC": lambda a: (vpc["VpcId"] for vpc in a.client("ec2").describe_vpcs()["Vpcs"]),
    "AWS::EC2::VPCEndpoint": lambda a: (
        endpoint["VpcEndpointId"] for endpoint in a.client("ec2").describe_vpc_endpoints()["VpcEndpoints"]
    ),
    "AWS::ECS::Cluster": lambda a: a.client("ecs").list_clusters()["clusterArns"],
    "AWS::ECS::Service": lambda a: (
        service
        for cluster in a.client("ecs").list_clusters()["clusterArns"]
        for service in a.client("ecs").list_services(cluster=cluster)["serviceArns"]
    ),
    "AWS::ECS::TaskDefinition": lambda a: a.client("ecs").list_task_definitions(status="ACTIVE")["taskDefinitionArns"],
    "AWS::Events::Rule": lambda a: (rule["Name"] for rule in a.client("events").list_rules()["Rules"]),
    "AWS::Glue::Database": lambda a: (
        database["Name"] for database in a.client("glue").get_databases()["DatabaseList"]
    ),
    "AWS::Glue::Table": lambda a: (
        table["Name"]
        for database in a.client("glue").get_databases()["DatabaseList"]
        for table in a.client("glue").get_tables(DatabaseName=database["Name"])["TableList"]
    ),
    "AWS::IAM::ManagedPolicy": lambda a: (
        policy["PolicyName"] for policy in a.client("iam").list_policies(Scope="Local")["Policies"]
    ),
    "AWS::IAM::Role": lambda a: (role["RoleName"] for role in a.client("iam").list_roles()["Roles"]),
    "AWS::Lambda::EventSourceMapping": lambda a: (
        source["UUID"] for source in a.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    ),
    "AWS::Lambda::Function": lambda a: (
        function["FunctionName"] for function in a.client("lambda").list_functions()["Functions"]
    ),
    "AWS::Logs::LogGroup": lambda a: (
        group["logGroupName"] for group in a.client("logs").describe_log_groups()["logGroups"]
    ),
    "AWS::S3::Bucket": lambda a: (
        # The templates' own bucket is no stack's.
        bucket["Name"]
        for bucket in a.client("s3").list_buckets()["Buckets"]
        if bucket["Name"] != ASSETS
    ),
    "AWS::SNS::Subscription": lambda a: (
        f"{found['TopicArn']} {found['Endpoint']}" for found in a.client("sns").list_subscriptions()["Subscriptions"]
    ),
    "AWS::SNS::Topic": lambda a: (topic["TopicArn"] for topic in a.client("sns").list_topics()["Topics"]),
    "AWS::SQS::Queue": lambda a: a.client("sqs").list_queues().get("QueueUrls", []),
}

PARTS = {
    "AWS::EC2::Route",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::IAM::Policy",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::Permission",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
}
"""Types that are part of another resource and gone with it."""


def everything(emulator: Emulator) -> set[Thing]:
    """All that there is, of all types that a stack has."""
    return {(kind, name) for kind, names in _LISTED.items() for name in names(emulator)}


def unseen(template: Template, things: set[Thing]) -> dict[str, int]:
    """How many resources of the template are not among these things, by type: those that `everything` is blind to."""
    left_out = unsupported(template)
    wanted = Counter(
        resource["Type"]
        for name, resource in template["Resources"].items()
        if name not in left_out and resource["Type"] not in PARTS
    )
    found = Counter(kind for kind, _ in things)
    return {kind: count - found[kind] for kind, count in wanted.items() if found[kind] < count}


def refused(emulator: Emulator, stack: str) -> set[str]:
    """Logical ids of what AWS would not delete with a stack, though the stack's template does not keep it: buckets that
    hold objects, and protected tables. The emulator deletes them."""
    cloudformation = emulator.client("cloudformation")
    template = cloudformation.get_template(StackName=stack)["TemplateBody"]["Resources"]
    return {
        found["LogicalResourceId"]
        for found in cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
        if template[found["LogicalResourceId"]].get("DeletionPolicy") != "Retain"
        and _holds(emulator, found["ResourceType"], found["PhysicalResourceId"])
    }


def _holds(emulator: Emulator, kind: str, name: str) -> bool:
    if kind == "AWS::S3::Bucket":
        return bool(emulator.client("s3").list_objects_v2(Bucket=name, MaxKeys=1)["KeyCount"])
    if kind == "AWS::DynamoDB::Table":
        found = emulator.client("dynamodb").describe_table(TableName=name)["Table"]
        return bool(found["DeletionProtectionEnabled"])
    return False
