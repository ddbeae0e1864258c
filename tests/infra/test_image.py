"""The container image: what the Dockerfile promises, read from its instructions."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.emulator import ROOT, Template, assembly, of_type

LOCKS = {"base.lock": (), "aws.lock": ("aws",), "fetcher.lock": ("aws",)}

LEFT_OUT = {"fetcher.lock": {"pyarrow"}}
"""What merges, and no fetcher does."""


def instructions(text: str) -> list[tuple[str, str]]:
    """(INSTRUCTION, arguments) of a Dockerfile, continued lines joined, comments dropped."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [
        (word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.split("\n")) if word
    ]


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    return instructions((ROOT / "Dockerfile").read_text())


@pytest.fixture(scope="module")
def last_stage(dockerfile: list[tuple[str, str]]) -> dict[str, str]:
    """The instructions of the stage that becomes the image; the last of each kind counts."""
    start = max(index for index, (word, _) in enumerate(dockerfile) if word == "FROM")
    return dict(dockerfile[start:])


def container(template: Template) -> dict[str, object]:
    (task,) = of_type(template, "AWS::ECS::TaskDefinition").values()
    (found,) = task["ContainerDefinitions"]
    assert isinstance(found, dict)
    return found


@pytest.mark.case("F16")
def test_entry_point_and_command_are_in_exec_form(last_stage: dict[str, str]) -> None:
    assert json.loads(last_stage["ENTRYPOINT"]) == ["python", "-m", "crawler"]
    assert json.loads(last_stage["CMD"]) == ["work"]


def test_user_and_spool_are_those_of_the_task(last_stage: dict[str, str], template: Template) -> None:
    user = last_stage["USER"]
    assert user == container(template)["User"]
    assert all(int(number) > 0 for number in user.split(":"))
    # A volume on Fargate belongs to root unless the image declares the same path as one.
    assert json.loads(last_stage["VOLUME"]) == ["/spool"]
    assert "-o crawler -g crawler /spool" in last_stage["RUN"]
    assert all(
        f"{flag} {number}" in last_stage["RUN"]
        for flag, number in zip(("--uid", "--gid"), user.split(":"), strict=True)
    )


def test_every_stage_begins_from_the_same_pinned_python(dockerfile: list[tuple[str, str]]) -> None:
    bases = {arguments.split()[0] for word, arguments in dockerfile if word == "FROM"}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", bases.pop())


def test_packages_come_from_the_lock_by_hash(dockerfile: list[tuple[str, str]]) -> None:
    installs = [arguments for word, arguments in dockerfile if word == "RUN" and "pip install" in arguments]
    assert len(installs) == 1
    assert "--require-hashes" in installs[0]


def test_the_worker_s_user_may_read_what_a_strict_umask_checked_out(
    dockerfile: list[tuple[str, str]], tmp_path: Path
) -> None:
    """COPY keeps the modes of the checkout, and bytecode takes those of its source."""
    source, python = tmp_path / "lib" / "crawler" / "a.py", tmp_path / "bin" / "python"
    for file in (source, python):
        file.parent.mkdir(parents=True)
        file.touch()
        file.chmod(0o600)
    source.parent.chmod(0o700)
    python.chmod(0o700)
    (step,) = [arguments for word, arguments in dockerfile if word == "RUN" and "compileall" in arguments]
    chmod, _, compiling = step.partition(" && ")
    assert compiling.startswith("/opt/crawler/bin/python -m compileall")
    subprocess.run(chmod.replace("/opt/crawler", str(tmp_path)), shell=True, check=True)
    modes = [path.stat().st_mode & 0o777 for path in (source, source.parent, python)]
    assert modes == [0o644, 0o755, 0o755]


def test_no_secret_can_get_in(dockerfile: list[tuple[str, str]]) -> None:
    assert {word for word, _ in dockerfile} <= {
        *("FROM", "RUN", "COPY", "ENV", "VOLUME", "USER", "WORKDIR", "ENTRYPOINT", "CMD")
    }, "no ARG or ADD"
    text = " ".join(arguments for _, arguments in dockerfile)
    assert not re.search(r"(?i)secret|token|password|aws_access|aws_session|\.env\b", text)


def test_the_build_context_is_what_the_dockerfile_copies(
    dockerfile: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    (dockerfile_copy,) = assembly(tmp_path_factory).glob("asset.*/Dockerfile")
    context = dockerfile_copy.parent
    files = {path.relative_to(context) for path in context.rglob("*") if path.is_file()}
    sources = {
        Path(arguments.split()[0])
        for word, arguments in dockerfile
        if word == "COPY" and not arguments.startswith("--from")
    }
    assert sources == {Path("requirements/fetcher.lock"), Path("crawler")}
    others = {file for file in files if not any(file.is_relative_to(source) for source in sources)}
    assert others == {Path("Dockerfile"), Path(".dockerignore")}
    assert Path("crawler/__main__.py") in files
    assert not [file for file in files if "__pycache__" in file.parts]


@pytest.mark.parametrize(("lock", "extras"), LOCKS.items())
def test_locks_hold_what_the_project_asks_for(lock: str, extras: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in extras for d in project["optional-dependencies"][extra])]
    text = (ROOT / "requirements" / lock).read_text()
    locked = {name.lower().replace("_", "-") for name in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)}
    assert {re.split(r"[<>=\[ ]", need)[0].lower().replace("_", "-") for need in wanted} - locked == LEFT_OUT.get(
        lock, set()
    )
    assert text.count("==") <= text.count("--hash=sha256:")
