"""Lines to a standard output that is slow, blocked, closed or absent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from crawler.telemetry import stdout
from tests.command import clean_environment

WRITE = """
import sys
from crawler.telemetry.stdout import Lines
lines = Lines()
for number in range({count}):
    lines.put(b"%d" % number + b"." * {length})
lines.close()
print(lines.dropped, file=sys.stderr)
"""


def write(count: int, length: int = 0, **how: object) -> subprocess.Popen[bytes]:
    program = WRITE.format(count=count, length=length)
    return subprocess.Popen([sys.executable, "-c", program], env=clean_environment(), stderr=subprocess.PIPE, **how)  # type: ignore[call-overload, no-any-return]


def test_lines_come_whole_and_in_order() -> None:
    process = write(50, 4000, stdout=subprocess.PIPE)
    out, errors = process.communicate(timeout=20)
    assert [line.rstrip(b".") for line in out.splitlines()] == [b"%d" % number for number in range(50)]
    assert (errors, process.returncode) == (b"0\n", 0)


def test_a_reader_that_never_reads_costs_lines_and_does_not_keep_the_process() -> None:
    process = write(stdout.WAITING * 3, 4000, stdout=subprocess.PIPE)
    assert process.wait(timeout=20) == 0
    assert process.stderr is not None
    assert int(process.stderr.read()) >= stdout.WAITING
    process.communicate()


def test_a_reader_that_has_gone_is_nothing_to_stop_for() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = write(10, stdout=writing)
    os.close(writing)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors.strip().isdigit()


def test_without_a_standard_output_the_file_that_has_its_number_is_left_alone(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    program = f"file = open({str(taken)!r}, 'wb'); assert file.fileno() == 1" + WRITE.format(count=5, length=0)
    closed = ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, program]
    result = subprocess.run(closed, env=clean_environment(), capture_output=True, timeout=20, check=False)
    assert (result.returncode, result.stderr) == (0, b"5\n")
    assert taken.read_bytes() == b""


def test_a_pipe_that_does_not_block_gets_all_lines() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    process = write(60, 4000, stdout=writing)
    os.close(writing)
    read: list[bytes] = []
    with os.fdopen(reading, "rb") as file:
        reader = threading.Thread(target=lambda: read.append(file.read()))
        reader.start()
        assert process.wait(timeout=20) == 0
        reader.join()
    assert len(read[0].splitlines()) == 60
    process.communicate()
