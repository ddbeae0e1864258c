"""The functions' folders: what is in them, how large they are, and what a cold start reads of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from infra import bundle

MEBIBYTE = 1 << 20

ZIPPED = 50 * MEBIBYTE
"""Bytes of a zip that Lambda takes directly, too."""

UNZIPPED = 250 * MEBIBYTE
"""Bytes of a function's code at most (Lambda)."""

NEVER = ("cffi", "click", "duckdb", "moto", "pyarrow", "pygments", "rich", "tkinter")
"""What the fetcher function must not load."""


@pytest.fixture(scope="module")
def here() -> Path:
    return bundle.build("fetcher", here=True)


def python(folder: Path, code: str) -> str:
    """What code prints that sees this folder and the standard library alone."""
    run = subprocess.run(
        [sys.executable, "-S", "-B", "-c", code],
        env={"PYTHONPATH": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_fetcher_is_complete_and_loads_nothing_that_it_has_no_use_for(here: Path) -> None:
    loaded = python(here, "import crawler.entrypoints.fetcher_function, sys; print(*sys.modules, sep='\\n')").split()
    assert "aioboto3" in loaded
    assert "crawler.archive.s3" in loaded
    assert [name for name in NEVER if name in loaded] == []


def test_the_handlers_of_the_fetcher_s_folder_load_from_it(here: Path) -> None:
    for entry in ("fetcher_function", "schedule_function"):
        python(here, f"from crawler.entrypoints.{entry} import handler")


def test_a_child_that_parses_starts_from_the_folder(here: Path) -> None:
    code = """
import asyncio
from crawler.parser import Parser
async def main():
    parser = Parser()
    await parser.start()
    page = await parser.parse("https://site.example/", "text/html", b"<a href=/x>", [], "crawler")
    print([link.url for link in page.links])
    await parser.close()
asyncio.run(main())
"""
    assert "https://site.example/x" in python(here, code)


def test_bytecode_comes_with_the_code_and_is_believed_unseen(here: Path) -> None:
    for source in (here / "crawler" / "loop.py", here / "aiohttp" / "client.py"):
        cached = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        assert cached.read_bytes()[4:8] == b"\x01\x00\x00\x00"  # PEP 552: by hash, unchecked


def test_a_second_build_finds_the_first_and_another_source_makes_another_folder(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bundle.build("fetcher", here=True) == here
    assert list(bundle.FOLDER.glob(f"{here.name}-*.part")) == []
    before = bundle.built("fetcher")
    copy = tmp_path / "copy"
    for file in bundle.sources():
        target = copy / file.relative_to(bundle.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    for file in (bundle.LOCK, bundle.RULES):
        (copy / file.relative_to(bundle.ROOT)).parent.mkdir(parents=True, exist_ok=True)
        (copy / file.relative_to(bundle.ROOT)).write_bytes(file.read_bytes())
    monkeypatch.setattr(bundle, "LOCK", copy / bundle.LOCK.relative_to(bundle.ROOT))
    monkeypatch.setattr(bundle, "RULES", copy / bundle.RULES.relative_to(bundle.ROOT))
    monkeypatch.setattr(bundle, "ROOT", copy)
    assert bundle.built("fetcher").name == before.name
    (copy / "crawler" / "loop.py").write_text("# changed")
    assert bundle.built("fetcher").name != before.name


def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    monkeypatch.setattr(bundle, "_install", _fails)
    with pytest.raises(subprocess.CalledProcessError):
        bundle.build("fetcher", here=True)
    assert list(tmp_path.iterdir()) == []


def _fails(*_: object) -> None:
    raise subprocess.CalledProcessError(1, "pip")


def test_folders_of_older_sources_go_when_nobody_has_used_them_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    now, longer = time.time(), time.time() - bundle.KEPT - 60
    used = {
        f"bare-{1:032x}": longer,
        f"bare-{2:032x}": now,
        f"bare-{3:032x}-x.part": longer,
        f"bare-{4:032x}-x.part": now,
    }
    others = {f"fetcher-{1:032x}": longer, f"fetcher-here-{1:032x}": longer, "bare-mine": longer}
    for name, at in {**used, **others}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        os.utime(tmp_path / name, (at, at))
    made = bundle.bare()
    left = {folder.name for folder in tmp_path.iterdir()}
    assert left == {made.name, *others, *(name for name, at in used.items() if at == now)}
    os.utime(made, (longer, longer))
    bundle.bare()
    assert made.stat().st_mtime >= now - 1  # whoever uses it keeps it


def test_an_app_without_libraries_says_so_once(tmp_path: Path) -> None:
    code = "from infra import assets, bundle; from pathlib import Path\n"
    code += f"bundle.FOLDER = Path({str(tmp_path)!r})\nassets.code('fetcher'), assets.code('janitor')"
    environment = {name: value for name, value in os.environ.items() if name != "CDK_CLI_VERSION"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=bundle.ROOT, check=True
    )
    assert run.stderr.count("functions are staged without their libraries") == 1


def test_without_libraries_the_package_alone_is_staged() -> None:
    folder = bundle.bare()
    assert [path.name for path in folder.iterdir()] == ["crawler"]
    assert (folder / "crawler" / "entrypoints" / "fetcher_function.py").exists()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["fetcher", "janitor"])
def test_the_folder_for_lambda_fits(kind: bundle.Kind, tmp_path: Path) -> None:
    folder = bundle.build(kind)
    assert bundle.size(folder) < UNZIPPED
    packed = tmp_path / "code.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder))
    print(f"{kind}: {bundle.size(folder) / 1e6:.1f} MB, {packed.stat().st_size / 1e6:.1f} MB zipped")
    if kind == "fetcher":
        assert packed.stat().st_size < ZIPPED
        assert not (folder / "pyarrow").exists()
    libraries = [file for file in folder.rglob("*.so*") if file.read_bytes()[:4] == b"\x7fELF"]
    assert libraries
    assert {file.read_bytes()[18:20] for file in libraries} == {b"\xb7\x00"}  # ELF, e_machine: AArch64


@pytest.mark.long
def test_the_janitor_writes_and_reads_parquet_with_what_is_in_its_folder() -> None:
    folder = bundle.build("janitor", here=True)
    code = """
import io
import crawler.archive.merge, crawler.archive.verify
from crawler.entrypoints.janitor_function import handler
import pyarrow as pa, pyarrow.parquet as pq
sink = io.BytesIO()
pq.write_table(pa.table({"number": [1]}), sink, compression="zstd")
print(pq.read_table(io.BytesIO(sink.getvalue())).to_pylist(), pa.__file__)
"""
    printed = python(folder, code)
    assert "[{'number': 1}]" in printed
    assert str(folder) in printed
