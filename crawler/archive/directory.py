"""The archive in a folder: files carry `.open` and their worker's lock (flock) until they are closed."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from crawler.archive.disk import create_locked, make_folder, sync_folder, write_at
from crawler.archive.folder import BESIDE, OPEN, PAGES, WARC, file_name, segment_of
from crawler.archive.stores import Piece, ReadRange, Segment, Store, StoredFile
from crawler.archive.takeover import take_over
from crawler.errors import StoreError, StoreUnavailable


class DirectoryStore:
    """Store on a file system with POSIX locks and renames. A flush is free, so it may follow every batch."""

    appends = True

    def __init__(self, path: Path, address: str) -> None:
        self.path, self.address = path, address

    async def check(self) -> None:
        await asyncio.to_thread(self._check)

    def _check(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path) as probe:
                probe.write(b"x")
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"cannot write to the folder {self.path}: {reason}; give another --store") from None

    def segment(self, folder: str, name: str) -> Segment:
        return DirectorySegment(self.path / folder, name)

    async def take_over(self, folder: str) -> int:
        with _unavailable(self.path / folder):
            return await asyncio.to_thread(take_over, self.path / folder)

    async def files(self, folder: str, kind: str) -> list[str]:
        with _unavailable(self.path / folder):
            return await asyncio.to_thread(self._files, folder, kind)

    def _files(self, folder: str, kind: str) -> list[str]:
        found: set[str] = set()
        # A file that is renamed while a folder is listed may show under neither name; it does the second time.
        for _ in range(2):
            try:
                listed = os.listdir(self.path / folder / kind)
            except FileNotFoundError:
                continue
            found |= {file_name(kind, segment) for name in listed if (segment := segment_of(name)) is not None}
        return sorted(found)

    async def read(self, folder: str, names: Sequence[str]) -> AsyncIterator[StoredFile]:
        for name in names:
            path = self.path / folder / name
            # Closed, still open, or closed between the two looks.
            for candidate in (path, path.with_name(path.name + OPEN), path):
                if candidate.exists():
                    yield StoredFile(name, candidate, candidate != path)
                    break
            else:
                raise StoreError(f"{path} is gone")

    @asynccontextmanager
    async def replace(self, name: str) -> AsyncIterator[Path]:
        target = self.path / name
        part = target.with_name(f".{target.name}.part")
        with _unavailable(target):
            make_folder(target.parent)
            # One writer at a time: a second one waits here. A kill leaves a part that the next writer empties.
            descriptor = await asyncio.to_thread(create_locked, part, new=False)
        try:
            with _unavailable(target):
                try:
                    os.ftruncate(descriptor, 0)
                    yield part
                    await asyncio.to_thread(os.fsync, descriptor)
                    part.replace(target)
                    sync_folder(target.parent)
                except BaseException:
                    part.unlink(missing_ok=True)
                    raise
        finally:
            os.close(descriptor)

    @asynccontextmanager
    async def existing(self, name: str) -> AsyncIterator[Path | None]:
        path = self.path / name
        yield path if path.exists() else None

    @asynccontextmanager
    async def ranges(self) -> AsyncIterator[ReadRange]:
        async def read(name: str, offset: int, length: int) -> bytes:
            return await asyncio.to_thread(self._range, self.path / name, offset, length)

        yield read

    def _range(self, path: Path, offset: int, length: int) -> bytes:
        for candidate in (path, path.with_name(path.name + OPEN), path):
            try:
                with candidate.open("rb") as file:
                    file.seek(offset)
                    return file.read(length)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreError(f"cannot read {candidate}: {error.strerror or error}") from None
        raise StoreError(f"{path} is gone")

    async def publish(self, folder: str) -> None:
        """Whoever queries a folder names the file."""

    async def drop(self, folder: str) -> None:
        await asyncio.to_thread(self._drop, self.path / folder)

    def _drop(self, folder: Path) -> None:
        with _unavailable(folder):
            for suffix in BESIDE:
                folder.with_name(folder.name + suffix).unlink(missing_ok=True)
            if folder.exists():
                shutil.rmtree(folder)


class DirectorySegment:
    """A pair of files below a crawl's folder. The lock is held from creation until `finish`, or until a kill."""

    def __init__(self, folder: Path, name: str) -> None:
        self._paths = {kind: folder / file_name(kind, name) for kind in (WARC, PAGES)}
        self._descriptors: dict[str, int] = {}
        self._busy = threading.Lock()

    async def write(self, records: Piece, rows: Piece) -> None:
        await asyncio.to_thread(self._write, records, rows)

    def _write(self, records: Piece, rows: Piece) -> None:
        # A cancelled call goes on in its thread; the lock keeps its repetition behind it.
        with self._busy, _unavailable(self._paths[WARC].parent.parent):
            # Dying between the two leaves records without rows: a takeover cuts them off, nobody has settled them.
            for kind, piece in ((WARC, records), (PAGES, rows)):
                if piece.data:
                    write_at(self._descriptor(kind), piece.data, piece.offset)

    def _descriptor(self, kind: str) -> int:
        if kind not in self._descriptors:
            path = self._open_path(kind)
            make_folder(path.parent)
            try:
                if self._paths[kind].exists():
                    raise FileExistsError
                self._descriptors[kind] = create_locked(path, new=True)
            except FileExistsError:
                raise StoreError(f"{path} exists already: two workers must not have the same name") from None
            sync_folder(path.parent)
        return self._descriptors[kind]

    async def finish(self) -> None:
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        with self._busy, _unavailable(self._paths[WARC].parent.parent):
            # Records first: a takeover that meets a closed WARC file knows that it is whole.
            for kind in (WARC, PAGES):
                if kind in self._descriptors:
                    if self._open_path(kind).exists():
                        self._open_path(kind).rename(self._paths[kind])
                    sync_folder(self._paths[kind].parent)
                    os.close(self._descriptors.pop(kind))

    def _open_path(self, kind: str) -> Path:
        path = self._paths[kind]
        return path.with_name(path.name + OPEN)


@contextmanager
def _unavailable(path: Path) -> Iterator[None]:
    """The file system's refusals, as the store's."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"cannot write to {path}: {error.strerror or error}") from error


def _conforms(store: DirectoryStore) -> Store:
    """For the type checker."""
    return store
