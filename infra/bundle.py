"""What the functions are made of: the package and the libraries that it needs, built without Docker.

    python -m infra.bundle                  # both kinds, for Lambda
    python -m infra.bundle fetcher --here   # one kind, for this machine: the same folder, to be tried out

Wheels for Lambda's processor are downloaded, whatever this machine is. What no function ever reads is left out, and
bytecode is added: a function's folder is read-only, so that each cold start would compile everything anew, which takes
half a second of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["fetcher", "janitor"]

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "aws.lock"
RULES = Path(__file__)
FOLDER = ROOT / ".cache" / "assets"

KEPT = 24 * 3600.0
"""Seconds since its last use for which a folder stays: builds of other sources may go on meanwhile."""

RUNTIMES = ("3.12", "3.13", "3.14")
"""Versions of Python that Lambda runs on Amazon Linux 2023, with glibc 2.34. Beneath its Python 3.11 is 2.26, which
cannot load Arrow's wheels: such a function is deployed without a complaint and fails when it is called."""

_OURS = f"{sys.version_info.major}.{sys.version_info.minor}"

PYTHON = _OURS if _OURS in RUNTIMES else RUNTIMES[0]
"""The functions' version: that of this process, in which the tests ran, and which alone makes bytecode for itself. Any
other has the image's version."""

PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_28_aarch64")

UNUSED: dict[Kind, frozenset[str]] = {
    "fetcher": frozenset({"click", "markdown-it-py", "mdurl", "pyarrow", "pycparser", "pygments", "rich"}),
    "janitor": frozenset({"click", "markdown-it-py", "mdurl", "pycparser", "pygments", "rich"}),
}
"""Libraries of the lock that only the command line needs, or a build."""

SERVICES: dict[Kind, frozenset[str]] = {
    "fetcher": frozenset({"dynamodb", "s3", "sqs", "sts"}),
    "janitor": frozenset({"dynamodb", "ecs", "events", "s3", "sqs", "sts"}),
}
"""Services whose descriptions botocore keeps: those of all others are 20 MB."""

PRUNED = (
    "*.dist-info",
    "bin",
    "**/tests",
    "**/*.c",
    "**/*.cpp",
    "**/*.h",
    "**/*.hpp",
    "**/*.pxd",
    "**/*.pxi",
    "**/*.pyi",
    "**/*.pyx",
    "boto3/data",
    "boto3/examples",
    "botocore/data/*/*/examples-1.json",
    "zstandard/_cffi*.so",
    "zstandard/backend_cffi.py",
    # Of Arrow what reads and writes local Parquet files is used.
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/libarrow_flight*",
    "pyarrow/libarrow_python.so",
    "pyarrow/libarrow_python.so.*.*.*",
    "pyarrow/libarrow_python_flight*",
    "pyarrow/libarrow_s3*",
    "pyarrow/_azurefs*",
    "pyarrow/_flight*",
    "pyarrow/_gcsfs*",
    "pyarrow/_hdfs*",
    "pyarrow/_s3fs*",
    "pyarrow/flight.py",
)
"""Patterns of what is left out: notes for installers, tests, sources of what is compiled, and parts nobody imports."""


def built(kind: Kind, *, here: bool = False) -> Path:
    """Where the folder of a kind lies once it is built: named after all that goes into it."""
    return FOLDER / f"{kind}-{'here-' if here else ''}{_digest(_origin(kind, here), LOCK, RULES, *sources())}"


def build(kind: Kind, *, here: bool = False) -> Path:
    """Build a kind's folder unless it is there. `here`: for this machine instead of Lambda.

    Raises CalledProcessError when the libraries cannot be had.
    """

    def fill(folder: Path) -> None:
        shutil.copytree(_libraries(kind, here), folder, copy_function=os.link, dirs_exist_ok=True)
        _copy_sources(folder)
        _compile(folder / "crawler", here)

    return _made(built(kind, here=here), fill)


def bare() -> Path:
    """A folder with the package alone."""
    return _made(FOLDER / f"bare-{_digest('', *sources())}", _copy_sources)


def sources() -> Iterator[Path]:
    """The package's files, sorted."""
    for file in sorted((ROOT / "crawler").rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file


def _made(wanted: Path, fill: Callable[[Path], None]) -> Path:
    """A folder, filled unless it is there. Whoever fills it at the same time does no harm: the first to end is kept."""
    if wanted.exists():
        os.utime(wanted)
        return wanted
    FOLDER.mkdir(parents=True, exist_ok=True)
    _tidy(wanted)
    part = Path(tempfile.mkdtemp(prefix=f"{wanted.name}-", suffix=".part", dir=FOLDER))
    try:
        fill(part)
        _readable(part)
        with contextlib.suppress(OSError):  # it has come to be meanwhile
            part.rename(wanted)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    assert wanted.exists(), f"cannot rename to {wanted}"
    return wanted


def _readable(folder: Path) -> None:
    """For everybody. A zip keeps the modes that this machine's umask made, and in Lambda another user runs the code."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _tidy(wanted: Path) -> None:
    """Remove folders of the same kind that nobody has used lately, and what builds that were killed left of them: each
    change of a file makes another one."""
    kind = wanted.name.rpartition("-")[0]
    for folder in FOLDER.iterdir():
        if re.fullmatch(rf"{kind}-[0-9a-f]{{32}}(-.*\.part)?", folder.name):
            with contextlib.suppress(OSError):  # gone meanwhile
                if folder.stat().st_mtime < time.time() - KEPT:
                    shutil.rmtree(folder, ignore_errors=True)


def _origin(kind: Kind, here: bool) -> str:
    """What the libraries depend on besides files."""
    return f"{kind} {PYTHON} {_OURS} {platform.machine() if here else ''}"


def _digest(*parts: str | Path) -> str:
    """The same for the same texts and files, whenever and wherever."""
    digest = hashlib.sha256()
    for part in parts:
        name, content = (part, b"") if isinstance(part, str) else (str(part.relative_to(ROOT)), part.read_bytes())
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:32]


def _copy_sources(folder: Path) -> None:
    for file in sources():
        target = folder / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _libraries(kind: Kind, here: bool) -> Path:
    """The folder of a kind's libraries alone: they change seldom, and take longest."""

    def fill(folder: Path) -> None:
        _install(kind, folder, here)
        _prune(kind, folder)
        _compile(folder, here)

    return _made(FOLDER / f"libraries-{_digest(_origin(kind, here), LOCK, RULES)}", fill)


def _install(kind: Kind, folder: Path, here: bool) -> None:
    """The libraries, as wheels, each checked against the lock."""
    entries = re.split(r"\n(?=[a-z])", LOCK.read_text())
    wanted = "\n".join(entry for entry in entries if entry.partition("==")[0] not in UNUSED[kind])
    words = ["--target", str(folder), "--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes"]
    if not here:
        words += ["--python-version", PYTHON, "--implementation", "cp"]
        words += [word for name in PLATFORMS for word in ("--platform", name)]
    with tempfile.TemporaryDirectory() as scratch:
        lock = Path(scratch, "lock.txt")
        lock.write_text(wanted)
        _python("pip", "install", "-q", "--disable-pip-version-check", "--no-input", *words, "-r", str(lock))


def _prune(kind: Kind, folder: Path) -> None:
    doomed = [path for pattern in PRUNED for path in folder.glob(pattern)]
    services = (folder / "botocore" / "data").iterdir()
    doomed += [path for path in services if path.is_dir() and path.name not in SERVICES[kind]]
    for path in doomed:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _compile(folder: Path, here: bool) -> None:
    """Bytecode that is believed without a look at its source."""
    if here or PYTHON == _OURS:
        _python("compileall", "-q", "-s", str(folder), "--invalidation-mode", "unchecked-hash", str(folder))


def _python(module: str, *words: str) -> None:
    subprocess.run([sys.executable, "-m", module, *words], check=True, stdout=sys.stderr)


def size(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(arguments: list[str]) -> int:
    kinds = [kind for kind in get_args(Kind) if kind in arguments] or list(get_args(Kind))
    for kind in kinds:
        folder = build(kind, here="--here" in arguments)
        print(f"{folder.relative_to(ROOT)}: {size(folder) / 1_000_000:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
