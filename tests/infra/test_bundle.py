"""The functions' code can be loaded where Lambda runs it, which is not this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import bundle

LIBC = (2, 34)
"""The C library's version in Amazon Linux 2023, on which Lambda runs Python 3.12 and later; 3.11 has 2.26."""

ARM = 0xB7
"""e_machine of an ELF file for aarch64."""


def compiled(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in folder.rglob("*.so*"):
        content = file.read_bytes()
        assert content[:4] == b"\x7fELF", file
        yield file.name, content


def newest_libc(content: bytes) -> tuple[int, int]:
    """The newest version of the C library that an ELF file asks for."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)\0", content)
    return max(((int(major), int(minor)) for major, minor in found), default=(0, 0))


def test_the_functions_python_is_one_that_runs_on_amazon_linux_2023() -> None:
    assert bundle.PYTHON in bundle.RUNTIMES
    assert all(tuple(map(int, version.split("."))) >= (3, 12) for version in bundle.RUNTIMES)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["fetcher", "janitor"])
def test_libraries_are_for_the_functions_processor_python_and_c_library(kind: bundle.Kind) -> None:
    libraries = dict(compiled(bundle.build(kind)))
    assert libraries
    for name, content in libraries.items():
        assert content[18] == ARM, name
        assert newest_libc(content) <= LIBC, name
        if tag := re.search(r"\.cpython-(\d+)-", name):
            assert tag[1] == bundle.PYTHON.replace(".", ""), name
    assert max(map(newest_libc, libraries.values())) > (2, 0)


def test_the_code_is_for_everybody_to_read_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda runs it as another user than its owner, and a zip keeps the modes."""
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    before = os.umask(0o077)
    try:
        folder = bundle.bare()
    finally:
        os.umask(before)
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in (folder, *folder.rglob("*"))}
    assert modes == {(True, 0o755), (False, 0o644)}
