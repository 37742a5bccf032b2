"""The object cache: named byte sections under a key, kept on disk between processes.

An entry is one file: a header (magic, version, checksum), the key, a table of section names and lengths, then
the sections. Files appear by atomic rename, and a file that does not check out is a miss. Nothing is unpickled.
"""

import errno
import hashlib
import os
import stat
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rushlight.support import settings
from rushlight.support.errors import warn
from rushlight.support.files import regular_bytes
from rushlight.support.frozen import frozen

DEFAULT_LIMIT_BYTES = 1 << 30

_MAGIC = b"RUSHOBJ\0"
_VERSION = 1
_HEADER = struct.Struct("<8sI32s")  # magic, version, checksum of all that follows
_SECTION = struct.Struct("<IQ")  # bytes of the name, bytes of the data
_COUNTS = struct.Struct("<II")  # bytes of the key, number of sections
_SUFFIX = ".rlo"
_PARTIAL_SUFFIX = ".part"
_TOUCH_AFTER_SECONDS = 3600
_STALE_PARTIAL_SECONDS = 3600
_KEEP_FRACTION = 0.9
_SHARES = 16  # parts of a folder, by the first digit of entries' names
_MANY = 8192  # entries from which a sweep looks at those of one share alone
_SWEEP_ODDS = 64  # of a process's first so many puts one looks at the directory's size, and one for 1/64 of the limit


_LOCK = threading.RLock()


class CorruptError(Exception):
    """An entry's bytes are not what was written."""


@dataclass(slots=True)
class CacheCounts:
    """What a cache did since it was opened."""

    hits: int = 0
    misses: int = 0
    corrupt: int = 0
    writes: int = 0
    evicted: int = 0


@frozen
class CacheEntry:
    """One entry as listed: its key (None if the file is corrupt), size and time of last use in seconds."""

    key: str | None
    size_bytes: int
    used: float
    path: Path


class ObjectCache:
    """A content-addressed cache of a bounded size; `directory=None` keeps everything in memory.

    A directory that cannot be used (a symbolic link, another user's, not writable) costs one warning, and the cache
    then lives in memory. Safe to share between threads and between processes.
    """

    def __init__(self, directory: Path | str | None, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.directory = None if directory is None else Path(directory)
        self.limit_bytes = limit_bytes
        self.counts = CacheCounts()
        self._memory: dict[str, dict[str, bytes]] = {}
        self._usable: bool | None = False if directory is None else None
        self._unswept_bytes = 0
        self._partial = 0

    def get(self, key: str) -> dict[str, bytes] | None:
        """The sections stored under `key`, or None."""
        sections = self._memory.get(key)
        if sections is None and self._directory_usable():
            sections = self._read(key)
        if sections is None:
            self.counts.misses += 1
            return None
        self.counts.hits += 1
        return dict(sections)

    def put(self, key: str, sections: Mapping[str, bytes]) -> None:
        """Store `sections` under `key`, replacing what was there."""
        kept = {name: bytes(data) for name, data in sections.items()}
        self.counts.writes += 1
        if not (self._directory_usable() and self._write(key, kept)):
            with _LOCK:
                self._memory[key] = kept
                self._trim_memory()

    def ls(self) -> list[CacheEntry]:
        """Every entry on disk, the most recently used first."""
        files = [(Path(path), size, used) for path, size, used in self._files()]
        entries = [CacheEntry(_key_of(path), size, used, path) for path, size, used in files]
        return sorted(entries, key=lambda entry: entry.used, reverse=True)

    def usage(self) -> tuple[int, int]:
        """How many entries are on disk, and their bytes: what they hold is not read."""
        sizes = [size for _path, size, _used in self._files()]
        return len(sizes), sum(sizes)

    def clear(self) -> int:
        """Remove every entry; the number removed."""
        with _LOCK:
            removed = len(self._memory)
            self._memory.clear()
        for path, _size, _used in self._files():
            removed += _unlink(Path(path))
        return removed

    def verify(self) -> list[Path]:
        """The files that do not check out; none is removed."""
        paths = [Path(path) for path, _size, _used in self._files()]
        return [path for path in paths if not _is_sound(path)]

    def sound_files(self) -> Iterator[bytes]:
        """The bytes of each entry's file that checks out, in the order of their names; `decode` reads them."""
        for path, _size, _used in sorted(self._files()):
            try:
                data = regular_bytes(path)[0]
                decode(data)
            except (OSError, CorruptError):
                continue
            yield data

    def size_bytes(self) -> int:
        """Bytes that entries take on disk."""
        return self.usage()[1]

    # ---------------------------------------------------------------- files

    def _read(self, key: str) -> dict[str, bytes] | None:
        path = self._path(key)
        try:
            data, used = regular_bytes(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:  # a pipe or the like, which nobody of ours put there
                _unlink(path)
            warn("K002", f"cache: an entry cannot be read: {error.strerror}", key=self.directory, path=str(path))
            return None
        try:
            stored_key, sections = decode(data)
        except CorruptError as error:
            self.counts.corrupt += 1
            _unlink(path)
            warn("K002", f"cache: an entry is corrupt: {error}", key=self.directory, path=str(path))
            return None
        if stored_key != key:
            return None
        if time.time() - used > _TOUCH_AFTER_SECONDS:
            _touch(path)
        return sections

    def _write(self, key: str, sections: Mapping[str, bytes]) -> bool:
        data = _encode(key, sections)
        if len(data) > self.limit_bytes:
            return False
        path = self._path(key)
        with _LOCK:
            self._partial += 1
            partial = path.with_name(f"{path.stem}.{os.getpid()}.{id(self):x}.{self._partial}{_PARTIAL_SUFFIX}")
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            partial.replace(path)
        except OSError as error:
            _unlink(partial)
            warn("K003", f"cache: {error.strerror}", key=self.directory, folder=str(self.directory))
            return False
        self._sweep_sometimes(path.stem, len(data))
        return True

    def _path(self, key: str) -> Path:
        assert self.directory is not None
        name = hashlib.blake2b(key.encode(), digest_size=20).hexdigest()
        return self.directory / f"{name}{_SUFFIX}"

    def _files(self, share: str = "") -> Iterator[tuple[str, int, float]]:
        """Path, bytes and time of last use of each entry whose name begins with `share`.

        A folder may have 200,000: to ask for their sizes takes a second, to make their `Path`s 5 s.
        """
        if not self._directory_usable():
            return
        assert self.directory is not None
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if not entry.name.startswith(share):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if entry.name.endswith(_SUFFIX):
                    yield entry.path, status.st_size, status.st_mtime
                elif entry.name.endswith(_PARTIAL_SUFFIX) and time.time() - status.st_mtime > _STALE_PARTIAL_SECONDS:
                    _unlink(Path(entry.path))

    # ---------------------------------------------------------------- bounds

    def _sweep_sometimes(self, name: str, written: int) -> None:
        with _LOCK:
            self._unswept_bytes += written
            due = self._unswept_bytes * _SWEEP_ODDS > self.limit_bytes
            due = due or (self.counts.writes <= _SWEEP_ODDS and int(name[:4], 16) % _SWEEP_ODDS == 0)
            if due:
                self._unswept_bytes = 0
        if due:
            self.sweep(name[:1])

    def sweep(self, share: str = "") -> None:
        """Remove the least recently used entries until the cache is well within its limit.

        Among many entries only those of a `share` are looked at, which may take their part of the limit: whoever
        compiles waits for it.
        """
        if not self._has_many():
            share = ""
        files = list(self._files(share))
        limit_bytes = self.limit_bytes / (_SHARES if share else 1)
        total = sum(size for _path, size, _used in files)
        if total <= limit_bytes:
            return
        for path, size, _used in sorted(files, key=lambda file: file[2]):
            if total <= limit_bytes * _KEEP_FRACTION:
                break
            self.counts.evicted += _unlink(Path(path))
            total -= size

    def _has_many(self) -> bool:
        return self.directory is not None and self._directory_usable() and len(os.listdir(self.directory)) >= _MANY

    def _trim_memory(self) -> None:
        total = sum(len(data) for sections in self._memory.values() for data in sections.values())
        while total > self.limit_bytes and len(self._memory) > 1:
            oldest = next(iter(self._memory))
            total -= sum(map(len, self._memory.pop(oldest).values()))

    # ---------------------------------------------------------------- directory

    def _directory_usable(self) -> bool:
        if self._usable is None:
            with _LOCK:
                reason = _prepare_directory(self.directory) if self.directory else "no directory"
                if reason:
                    warn(
                        "K001",
                        f"cache: the folder cannot be used: {reason}",
                        key=self.directory,
                        folder=str(self.directory),
                    )
                self._usable = not reason
        return self._usable


_shared: dict[tuple[str, int], ObjectCache] = {}


def shared() -> ObjectCache:
    """The cache that the settings ask for: one for each folder and limit."""
    values = settings.get()
    folder = settings.cache_dir() if values.cache else ""
    limit_bytes = values.cache_limit_mb << 20
    cache = _shared.get((folder, limit_bytes))
    if cache is None:
        cache = _shared.setdefault((folder, limit_bytes), ObjectCache(folder or None, limit_bytes))
    return cache


def _prepare_directory(directory: Path) -> str:
    """Create the directory, private to its owner; the reason why it cannot be used, or the empty string."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
        if stat.S_ISLNK(status.st_mode):
            return "it is a symbolic link"
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            return "it belongs to another user"
        if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
            directory.chmod(0o700)
    except OSError as error:
        return error.strerror or str(error)
    return "" if os.access(directory, os.R_OK | os.W_OK | os.X_OK) else "it is not writable"


def _encode(key: str, sections: Mapping[str, bytes]) -> bytes:
    name = key.encode()
    parts = [_COUNTS.pack(len(name), len(sections)), name]
    names = [section.encode() for section in sections]
    parts += [_SECTION.pack(len(text), len(data)) for text, data in zip(names, sections.values(), strict=True)]
    parts += names
    parts += sections.values()
    body = b"".join(parts)
    return _HEADER.pack(_MAGIC, _VERSION, hashlib.blake2b(body, digest_size=32).digest()) + body


def decode(data: bytes) -> tuple[str, dict[str, bytes]]:
    """The key and the sections of an entry's file, or `CorruptError`."""
    if len(data) < _HEADER.size + _COUNTS.size:
        raise CorruptError("cut short")
    magic, version, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise CorruptError("not an entry of this version")
    if hashlib.blake2b(memoryview(data)[_HEADER.size :], digest_size=32).digest() != checksum:
        raise CorruptError("the checksum differs")
    position = _HEADER.size
    try:
        return _sections(data, position)
    except (struct.error, UnicodeDecodeError) as cause:  # a checksum that was made for it can be right
        raise CorruptError("its table does not fit") from cause


def _sections(data: bytes, position: int) -> tuple[str, dict[str, bytes]]:
    key_bytes, count = _COUNTS.unpack_from(data, position)
    position += _COUNTS.size
    key = data[position : position + key_bytes].decode()
    position += key_bytes
    if count * _SECTION.size > len(data) - position:
        raise CorruptError("its table does not fit")
    lengths = [_SECTION.unpack_from(data, position + i * _SECTION.size) for i in range(count)]
    position += count * _SECTION.size
    names: list[str] = []
    for name_bytes, _size in lengths:
        names.append(data[position : position + name_bytes].decode())
        position += name_bytes
    sections: dict[str, bytes] = {}
    for name, (_name_bytes, size) in zip(names, lengths, strict=True):
        sections[name] = data[position : position + size]
        position += size
    if position != len(data):
        raise CorruptError("its table does not fit")
    return key, sections


def _key_of(path: Path) -> str | None:
    try:
        return decode(regular_bytes(path)[0])[0]
    except (OSError, CorruptError):
        return None


def _is_sound(path: Path) -> bool:
    try:
        decode(regular_bytes(path)[0])
    except CorruptError:
        return False
    except OSError:
        return not path.exists()  # another process evicted it: not corrupt
    return True


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        return  # evicted meanwhile, or not ours to touch: its age is a hint only


def _unlink(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
