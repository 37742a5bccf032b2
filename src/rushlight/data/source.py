"""Files as runs of bytes that are read at any place: whole in memory, piece by piece, or mapped.

Every read is checked against the file's size first, so that a damaged length never becomes an allocation.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import sys
from collections.abc import Generator
from typing import Any, BinaryIO

import numpy as np

from rushlight.runtime.allocator import Storage
from rushlight.support.errors import error, fail, require

Path = str | os.PathLike[str]


class Source:
    """Bytes in memory, under the name of the file that they come from."""

    def __init__(self, name: str, data: bytes | memoryview | mmap.mmap) -> None:
        self.name = name
        self.size = len(data)
        self._data = memoryview(data)

    def read(self, start: int, count: int, entry: str) -> bytes:
        """Return bytes of the file; P002, which names the entry, where they reach beyond its end."""
        self.check(start, count, entry)
        return bytes(self._data[start : start + count])

    def storage(self, start: int, count: int, entry: str) -> Storage:
        """Return a storage of its own with bytes of the file."""
        self.check(start, count, entry)
        storage = Storage.allocate(count)
        storage.view()[:] = np.frombuffer(self._data[start : start + count], np.uint8)
        return storage

    def check(self, start: int, count: int, entry: str) -> None:
        """P002 unless a range lies within the file."""
        inside = 0 <= start <= self.size and 0 <= count <= self.size - start
        require(inside, "P002", f"load: {self.name} is truncated or damaged", entry=entry)


class MappedSource(Source):
    """A mapped file: storages are its pages, copied by the system when they are written to."""

    def __init__(self, name: str, pages: mmap.mmap) -> None:
        super().__init__(name, pages)
        self._pages = pages

    def expect_scattered_reads(self) -> None:
        """Tell the system that pages are read here and there: it then loads none in advance."""
        if hasattr(mmap, "MADV_RANDOM"):
            self._pages.madvise(mmap.MADV_RANDOM)

    def storage(self, start: int, count: int, entry: str) -> Storage:
        """Return a storage on the file's pages; writes to it do not reach the file."""
        self.check(start, count, entry)
        return Storage.from_buffer(np.frombuffer(self._data[start : start + count], np.uint8))


class FileSource(Source):
    """An open file, of which only what is asked for is read."""

    def __init__(self, name: str, file: BinaryIO) -> None:
        super().__init__(name, b"")
        self._file = file
        self.size = os.fstat(file.fileno()).st_size

    def read(self, start: int, count: int, entry: str) -> bytes:
        """Return bytes of the file; P002, which names the entry, where they reach beyond its end."""
        self.check(start, count, entry)
        self._file.seek(start)
        data = self._file.read(count)
        require(len(data) == count, "P002", f"load: {self.name} is truncated or damaged", entry=entry)
        return data

    def storage(self, start: int, count: int, entry: str) -> Storage:
        """Return a storage of its own with bytes of the file."""
        self.check(start, count, entry)
        storage = Storage.allocate(count)
        self._file.seek(start)
        target: Any = storage.view().data
        done = 0
        while done < count:
            got = self._file.readinto(target[done:])  # pyright: ignore[reportAttributeAccessIssue] - buffered readers
            require(got, "P002", f"load: {self.name} is truncated or damaged", entry=entry)
            done += got
        return storage


def _pages_of(descriptor: int) -> mmap.mmap:
    """The pages of a file, to be copied where they are written to."""
    if not sys.platform.startswith("linux"):
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    # The system otherwise reserves memory for a copy of all pages, and refuses a file larger than memory.
    flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return mmap.mmap(descriptor, 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def name_of(f: object) -> str:
    """Return the name of a file for messages."""
    if isinstance(f, str | os.PathLike):
        return str(os.fspath(f))
    return str(getattr(f, "name", type(f).__name__))


@contextlib.contextmanager
def opened(f: Path | BinaryIO, mapped: bool = False) -> Generator[Source]:
    """Give the source of a path or of a file open for reading bytes, which is read from where it stands.

    P001 where there is no such regular file; a pipe would wait for a writer.
    """
    name = name_of(f)
    if not isinstance(f, str | os.PathLike):
        require(not mapped, "A002", "load: mmap=True maps a file by its path, and this is an open file", file=name)
        read = getattr(f, "read", None)
        data: object = read() if callable(read) else None
        if not isinstance(data, bytes):
            fail("A001", "load: a path, or a file that is open for reading bytes", file=name)
        yield Source(name, data)
        return
    try:
        regular = not os.path.exists(f) or stat.S_ISREG(os.stat(f).st_mode)
        require(regular, "P001", f"load: {name} is not a regular file")
        with open(f, "rb") as file:
            if not mapped:
                yield FileSource(name, file)
            elif os.fstat(file.fileno()).st_size:
                yield MappedSource(name, _pages_of(file.fileno()))
            else:
                yield Source(name, b"")
    except FileNotFoundError as cause:
        raise error("P001", f"load: there is no file {name}") from cause
    except OSError as cause:
        if hasattr(cause, "code"):
            raise
        if cause.errno is None or cause.errno == errno.EIO:
            raise error("P002", f"load: {name} is truncated or damaged", reason=str(cause)) from cause
        raise error("P001", f"load: {name} cannot be read: {cause.strerror}") from cause
    except ValueError as cause:  # a path with a null byte
        if hasattr(cause, "code"):
            raise
        raise error("P001", f"load: there is no file {name!r}") from cause
