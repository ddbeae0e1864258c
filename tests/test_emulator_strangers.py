"""Whoever is not of the account can send nothing to the frontier, even when somebody has let everybody in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

from tests.emulator import REGION, Emulator, Template, running

pytestmark = pytest.mark.emulator

QUEUES = ("FrontierHigh", "FrontierNormal", "FrontierLow", "DeadLetters")
EVERYBODY = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}


class Door(NamedTuple):
    """A deployed stack where rights count, and two who knock: the owner, and a stranger with all rights in an account
    of his own."""

    outputs: dict[str, str]
    owner: Any
    stranger: Any

    def let_in(self, queue: str, *, but_strangers: bool) -> str:
        """Everybody; the queue's own policy stays, without TLS that nobody has here. Answers with the queue's URL."""
        url: str = self.owner.get_queue_url(QueueName=self.outputs[queue])["QueueUrl"]
        found = self.owner.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
        own = [statement for statement in json.loads(found)["Statement"] if "Sid" in statement]
        assert len(own) == 2
        policy = {"Version": "2012-10-17", "Statement": [EVERYBODY, *(own if but_strangers else [])]}
        self.owner.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
        return url


@pytest.fixture(scope="module")
def door(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with running(tmp_path_factory.mktemp("strangers"), AUTH="true") as emulator:
        outputs = emulator.deploy(without_tls(template), "Closed")
        iam = client(emulator, "iam", "111111111111", "test")
        iam.create_user(UserName="stranger")
        rights = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
        iam.put_user_policy(UserName="stranger", PolicyName="all", PolicyDocument=json.dumps(rights))
        key = iam.create_access_key(UserName="stranger")["AccessKey"]
        stranger = client(emulator, "sqs", key["AccessKeyId"], key["SecretAccessKey"])
        yield Door(outputs, emulator.client("sqs"), stranger)


def without_tls(template: Template) -> Template:
    """The template without the statements that ask for TLS, which the emulator does not speak here."""
    text = json.dumps(template)
    changed: Template = json.loads(text.replace('"aws:SecureTransport": "false"', '"aws:SecureTransport": "never"'))
    return changed


def client(emulator: Emulator, service: str, key: str, secret: str) -> Any:
    return Session().create_client(
        service,
        endpoint_url=emulator.endpoint,
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )


def sent(sender: Any, url: str) -> bool:
    try:
        sender.send_message(QueueUrl=url, MessageBody="https://example.com/")
    except ClientError as error:
        if error.response["Error"]["Code"] != "AccessDenied":
            raise
        return False
    return True


@pytest.mark.parametrize("queue", QUEUES)
def test_a_queue_takes_messages_of_the_account_alone(door: Door, queue: str) -> None:
    url = door.let_in(queue, but_strangers=True)
    assert [sent(sender, url) for sender in (door.owner, door.stranger)] == [True, False]


def test_it_is_the_queues_policy_that_keeps_them_out(door: Door) -> None:
    url = door.let_in("FrontierNormal", but_strangers=False)
    assert [sent(sender, url) for sender in (door.owner, door.stranger)] == [True, True]
