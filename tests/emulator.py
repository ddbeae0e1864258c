"""The AWS emulator as a process of its own, and the stack's template as `cdk synth` writes it.

A pytest plugin, loaded by the conftest: fixtures `emulator`, `proxy` and `template`, and `running` and `assembly` for
those who need one of their own. The emulator is ministack, from the file that CRAWLER_EMULATOR names or from
.venv-emulator.
"""

from __future__ import annotations

import copy
import fcntl
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from botocore.config import Config
from botocore.session import Session

from tests.aws.proxy import Proxy
from tests.ports import free_port

ROOT = Path(__file__).parents[1]
REGION = "us-east-1"
ACCOUNT = "000000000000"
ASSETS = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
"""The bucket that `cdk bootstrap` makes, where the templates look for the functions' code."""

START_SECONDS = 30.0
STACK_SECONDS = 60.0

Template = dict[str, Any]
"""A CloudFormation template, read from its JSON."""


class Emulator:
    """A running emulator.

    `environment` holds the variables by which a child process (the AWS CLI, a worker) uses it and no real account.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._session = Session()
        self.environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str) -> Any:
        """A synchronous client of a service, such as `sqs`, with boto3's methods."""
        return self._session.create_client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"total_max_attempts": 2}),
        )

    def deploy(self, template: Template, stack_name: str, *, assembly: Path | None = None) -> dict[str, str]:
        """Create the stack, or update it when it exists, and return its outputs.

        What the emulator has no notion of is left out first: see `unsupported`. With the `assembly` that the template
        is from, functions get their code from it, and the libraries of this environment. Without, they do nothing.
        """
        assert assembly or not of_type(template, "AWS::Lambda::EventSourceMapping"), "would eat the frontier's messages"
        cloudformation = self.client("cloudformation")
        fitting = without(template, unsupported(template))
        # By way of a bucket, as the cdk command does it: a request holds 51,200 bytes.
        s3, key = self.client("s3"), f"{stack_name}.json"
        s3.create_bucket(Bucket=ASSETS)
        if assembly:
            self._upload(assembly)
            fitting = with_libraries(fitting)
        s3.put_object(Bucket=ASSETS, Key=key, Body=json.dumps(fitting).encode())
        arguments = {
            "StackName": stack_name,
            "TemplateURL": f"{self.endpoint}/{ASSETS}/{key}",
            "Capabilities": ["CAPABILITY_IAM"],
        }
        if self._status(stack_name):
            cloudformation.update_stack(**arguments)
            expected = "UPDATE_COMPLETE"
        else:
            cloudformation.create_stack(**arguments)
            expected = "CREATE_COMPLETE"
        self._wait(stack_name, expected)
        outputs = cloudformation.describe_stacks(StackName=stack_name)["Stacks"][0].get("Outputs", [])
        return {output["OutputKey"]: output["OutputValue"] for output in outputs}

    def _upload(self, assembly: Path) -> None:
        """Put what the assembly's functions are made of where the template looks for it, as `cdk deploy` does.

        Only the package itself: the libraries beside it are built for another processor.
        """
        s3 = self.client("s3")
        (manifest,) = assembly.glob("*.assets.json")
        for asset in json.loads(manifest.read_text())["files"].values():
            folder = assembly / asset["source"]["path"]
            if asset["source"]["packaging"] != "zip" or not (folder / "crawler").is_dir():
                continue
            (place,) = asset["destinations"].values()
            s3.put_object(Bucket=ASSETS, Key=place["objectKey"], Body=zipped(folder, "crawler"))

    def delete(self, stack_name: str) -> None:
        """Delete the stack and wait until it is gone; resources that it retains stay."""
        # By its id, for a deleted stack is not found by its name.
        stack_id = self.client("cloudformation").describe_stacks(StackName=stack_name)["Stacks"][0]["StackId"]
        self.client("cloudformation").delete_stack(StackName=stack_name)
        self._wait(stack_id, "DELETE_COMPLETE")

    def _status(self, stack: str) -> str:
        """The stack's status; empty when there is none."""
        cloudformation = self.client("cloudformation")
        try:
            return str(cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])
        except cloudformation.exceptions.ClientError:
            return ""

    def _wait(self, stack: str, expected: str) -> None:
        deadline = time.monotonic() + STACK_SECONDS
        while (status := self._status(stack)).endswith("_IN_PROGRESS") and time.monotonic() < deadline:
            time.sleep(0.05)
        if status != expected:
            events = self.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
            reasons = [
                f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}"
                for event in events
                if "FAILED" in event["ResourceStatus"]
            ]
            raise AssertionError(f"stack {stack} is {status}, not {expected}: {reasons}")


REFUSED = frozenset(
    {
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        "AWS::Athena::NamedQuery",
        "AWS::Budgets::Budget",
        "AWS::Logs::QueryDefinition",
    }
)
"""Types of resources that the emulator's CloudFormation does not know."""


def unsupported(template: Template) -> set[str]:
    """Logical ids of the resources that the emulator refuses: those types, and alarms on metric math."""
    return {
        name
        for name, resource in template["Resources"].items()
        if resource["Type"] in REFUSED
        or (resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"])
    }


def without(template: Template, left_out: set[str]) -> Template:
    """A copy that lacks these resources; what refers to one of them gets its logical id as a word instead."""

    def reduced(value: Any) -> Any:
        if isinstance(value, list):
            return [reduced(item) for item in value]
        if not isinstance(value, dict):
            return value
        if value.get("Ref") in left_out:
            return value["Ref"]
        if "Fn::GetAtt" in value and value["Fn::GetAtt"][0] in left_out:
            return value["Fn::GetAtt"][0]
        return {key: reduced(item) for key, item in value.items()}

    kept: Template = reduced({**template, "Resources": _except(template["Resources"], left_out)})
    for resource in kept["Resources"].values():
        if "DependsOn" in resource:
            resource["DependsOn"] = [name for name in resource["DependsOn"] if name not in left_out]
    return kept


def _except(resources: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: resource for name, resource in resources.items() if name not in names}


def with_libraries(template: Template) -> Template:
    """A copy whose functions find the libraries of the environment that runs the tests."""
    changed = copy.deepcopy(template)
    for function in of_type(changed, "AWS::Lambda::Function").values():
        variables = function.setdefault("Environment", {}).setdefault("Variables", {})
        variables["PYTHONPATH"] = sysconfig.get_path("purelib")
    return changed


def zipped(folder: Path, package: str) -> bytes:
    """The Python files and the data of a package in a folder."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted((folder / package).rglob("*")):
            if file.is_file() and file.suffix != ".pyc":
                archive.write(file, file.relative_to(folder))
    return buffer.getvalue()


@contextmanager
def running(folder: Path, **settings: str) -> Iterator[Emulator]:
    """Run an emulator with these environment variables (such as AUTH="true") and keep its log in `folder`.

    Without an emulator on this machine the test is skipped; under CI it fails.
    """
    program = Path(os.environ.get("CRAWLER_EMULATOR") or ROOT / ".venv-emulator" / "bin" / "ministack")
    if not program.exists():
        _missing(f"no AWS emulator at {program}: `make test` installs it, or set CRAWLER_EMULATOR")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    log = folder / "emulator.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(program)],
            env={
                "PATH": os.environ["PATH"],
                "BIND_HOST": "127.0.0.1",
                "GATEWAY_PORT": str(port),
                "TMPDIR": str(folder),
                "LOG_LEVEL": "WARNING",
                **settings,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            # A group of its own: Ctrl-C is for the tests, and what the emulator starts ends with it.
            start_new_session=True,
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_healthy(endpoint, process, log)
        yield Emulator(endpoint)
    finally:
        _stop(process)


def _wait_healthy(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise AssertionError(f"the AWS emulator did not start: {log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def synthesize(out: Path, context: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the CDK app as cdk.json names it, with this context besides, into folder `out`.

    It gets an environment without credentials, and a PATH on which there is nothing, so no Docker and no cdk either.
    """
    node = shutil.which("node")
    if node is None:
        _missing("the CDK needs Node 20 or newer on the PATH")
    cdk = json.loads((ROOT / "cdk.json").read_text())
    return subprocess.run(
        [sys.executable, *cdk["app"].split()[1:]],
        cwd=ROOT,
        env={
            "PATH": "",
            "JSII_NODE": node,
            "CDK_OUTDIR": str(out),
            "CDK_CONTEXT_JSON": json.dumps({**cdk["context"], **(context or {})}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def assembly(factory: pytest.TempPathFactory, context: Mapping[str, Any] | None = None) -> Path:
    """The folder that synth writes for this context: one run, some seconds, for all workers of a test session."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    name = hashlib.sha256(json.dumps(context or {}, sort_keys=True).encode()).hexdigest()[:16]
    out = shared / f"cdk.out-{name}"
    with (shared / f"cdk.lock-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "manifest.json").exists():
            run = synthesize(out, context)
            assert run.returncode == 0, run.stderr
    return out


def _missing(reason: str) -> NoReturn:
    """Skip the test on a developer's machine, fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The template of a stack with the default settings. Copy before changing it."""
    return read_template(assembly(tmp_path_factory) / "Crawler.template.json")


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """One emulator for all tests of a process: give stacks, queues and buckets names of your own."""
    with running(tmp_path_factory.mktemp("emulator")) as emulator:
        yield emulator


@pytest.fixture
async def proxy(emulator: Emulator) -> AsyncIterator[Proxy]:
    """A proxy in front of the emulator, for those who are told its endpoint."""
    async with Proxy(emulator.endpoint) as made:
        yield made


def read_template(file: Path) -> Template:
    template: Template = json.loads(file.read_text())
    return template


def of_type(template: Template, kind: str) -> dict[str, Any]:
    """The resources of a type (`AWS::SQS::Queue`): properties by logical id."""
    return {name: r.get("Properties", {}) for name, r in template["Resources"].items() if r["Type"] == kind}


def output_id(template: Template, key: str) -> str:
    """Logical id of the resource that an output names."""
    value = template["Outputs"][key]["Value"]
    return str(value["Ref"] if "Ref" in value else value["Fn::GetAtt"][0])
