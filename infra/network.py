"""The network: the way out to the web, and no way in."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class Network(Construct):
    """A VPC of public subnets.

    No NAT gateway: every byte of every page would pass it, at several times the price of all the rest together. A
    worker has a public address instead, and a security group without an inbound rule. What goes to S3 and DynamoDB
    takes the gateway endpoints, which cost nothing.
    """

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=0,
            subnet_configuration=[ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC)],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
                "DynamoDb": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
            },
            # It would take a Lambda function to empty the default group, which nothing here uses.
            restrict_default_security_group=False,
        )
        self.outbound_only = ec2.SecurityGroup(
            self, "OutboundOnly", vpc=self.vpc, allow_all_outbound=True, description="Crawl workers: out, never in"
        )
