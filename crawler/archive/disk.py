"""Files that survive a kill: bytes at an offset, locks that die with their holder, names that last."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def create_locked(path: Path, *, new: bool) -> int:
    """Open a file for writing and take its lock, waiting for a holder; with `new` it must not exist yet.

    A takeover may have found the file in the instant before the lock and removed or renamed it: then a lock was taken
    on a file that has no such name any more, and it begins again. Closing the descriptor frees the lock; so does a
    kill, once no forked child holds the descriptor.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_EXCL if new else 0), 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def lock_if_free(path: Path) -> int | None:
    """Open an existing file and take its lock; None when it is gone or its writer lives."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(descriptor, path):
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Make `data` at `offset` the durable end of a file. Repeating it, with more data too, is safe."""
    left = memoryview(data)
    while left:
        written = os.pwrite(descriptor, left, offset)
        left, offset = left[written:], offset + written
    os.ftruncate(descriptor, offset)
    os.fsync(descriptor)


def make_folder(path: Path) -> None:
    """Create a folder and those above it, durably."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
