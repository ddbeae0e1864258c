"""The container image without a container: its install steps run in a folder, and its worker as the first process."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawler.demo.site import running as demo_site
from tests import command
from tests.emulator import ROOT, Emulator, Template, of_type
from tests.infra.test_image import instructions

pytestmark = [pytest.mark.emulator, pytest.mark.xdist_group("image"), pytest.mark.timeout(400)]

STACK = "Image"
SPOOL = "/spool"


class Image:
    """What the build stage leaves behind, in a folder that another user can read."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "crawler/bin/python"
        self.spool = folder / "spool"

    def inside(self, text: str) -> str:
        """A command of the image with its folder for temporary files where it is here."""
        return text.replace(SPOOL, str(self.spool))


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    folder = Path(tempfile.mkdtemp(prefix="image-"))
    folder.chmod(0o755)
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    assert len(stages) == 3
    try:
        for word, arguments in instructions(stages[1]):
            _build(folder, word, arguments)
        made = Image(folder)
        made.spool.mkdir()
        made.spool.chmod(0o777)
        yield made
    finally:
        shutil.rmtree(folder)


def _build(folder: Path, word: str, arguments: str) -> None:
    """One instruction of the build stage, with `/opt` and `/tmp` below the folder."""
    here = re.sub(r"(^|\s)/(opt|tmp)/", rf"\1{folder}/", arguments)
    # The image's Python may be another than the one that runs the tests.
    here = re.sub(r"/lib/python3\.\d+/", f"/lib/python3.{sys.version_info.minor}/", here)
    if word == "RUN":
        python = folder / "image" / "python"  # which not every machine has by this name
        python.parent.mkdir(exist_ok=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        env = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
        subprocess.run(here, shell=True, check=True, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    elif word == "COPY":
        source, target = here.split()
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, target)


def container(template: Template) -> dict[str, Any]:
    (task,) = of_type(template, "AWS::ECS::TaskDefinition").values()
    (found,) = task["ContainerDefinitions"]
    assert isinstance(found, dict)
    return found


def environment(template: Template, image: Image, emulator: Emulator) -> dict[str, str]:
    """What the image and the task give the worker, and nothing of this process's."""
    stage = (ROOT / "Dockerfile").read_text().split("\nFROM ")[2]
    (fixed,) = [arguments for word, arguments in instructions(stage) if word == "ENV"]
    given = {entry["Name"]: entry["Value"] for entry in container(template)["Environment"]}
    values = {
        **dict(setting.split("=", 1) for setting in fixed.split()),
        **{name: value for name, value in given.items() if isinstance(value, str)},
        **emulator.environment,
        "CRAWLER_STATE": f"aws://{STACK}",
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    }
    return {name: image.inside(value) for name, value in values.items()}


def namespaces() -> bool:
    """Whether this machine lets a test have process numbers of its own."""
    return (
        subprocess.run(["unshare", "--pid", "--fork", "true"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    )


@pytest.mark.case("F16")
@pytest.mark.skipif(not namespaces(), reason="needs the right to make a process namespace, to be its first process")
def test_the_worker_starts_from_the_steps_of_the_image_and_leaves_when_told_to(
    image: Image, emulator: Emulator, template: Template
) -> None:
    """As the task runs it: process 1, which the kernel spares every signal that it does not handle. SIGTERM is what ECS
    sends, two minutes before SIGKILL."""
    emulator.deploy(template, STACK)
    env = environment(template, image, emulator)
    state = {name: env[name] for name in (*emulator.environment, "CRAWLER_STATE")}
    first = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with demo_site(delay_ms=200) as site:
        seeded = command.run("seed", *site.seeds, "--allow-private", "--rate", "0", env=state)
        assert seeded.returncode == 0, seeded.stderr
        arguments = [*first, str(image.python), "-m", "crawler", "work"]
        process = subprocess.Popen(arguments, env=env, cwd=image.spool, stdin=subprocess.DEVNULL)
        try:
            command.wait_for(lambda: command.status(env=state)["done"] > 0)
            (worker,) = psutil.Process(process.pid).children()
            health = container(template)["HealthCheck"]["Command"]
            assert health[0] == "CMD-SHELL"
            command.wait_for(lambda: healthy(image, health[1]))
            worker.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 130
        finally:
            process.kill()
    after = command.status(env=state)
    assert after["done"] > 0
    assert (after["leased"], after["workers_alive"]) == (0, 0)


def healthy(image: Image, check: str) -> bool:
    """What ECS makes of the container's health check."""
    return subprocess.run(["sh", "-c", image.inside(check)], check=False, cwd="/").returncode == 0


def test_a_worker_that_stands_still_is_not_healthy(image: Image, template: Template) -> None:
    check = container(template)["HealthCheck"]["Command"][1]
    beat = image.spool / "heartbeat"
    beat.unlink(missing_ok=True)
    assert not healthy(image, check)
    beat.touch()
    assert healthy(image, check)
    old = time.time() - 600
    os.utime(beat, (old, old))
    assert not healthy(image, check)
