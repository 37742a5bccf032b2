"""Zip archives of stored entries, as PyTorch's checkpoints and numpy's `.npz` are.

Reading goes by the directory at the end. What an entry's data are is known before they are read: their place, size and
checksum. Archives are written in one pass, without times, so that equal contents make equal files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from rushlight.data.source import Source
from rushlight.support.errors import error, fail, require
from rushlight.support.frozen import frozen

Part = bytes | memoryview

ALIGNMENT = 64
_FULL = 0xFFFFFFFF
_STORED, _DEFLATED = 0, 8
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ZIP64_VERSION = 45
_UTF8 = 0x800
_MOST_DEFLATED = 1040  # bytes that one byte of deflated data can stand for, at most


@frozen
class Entry:
    """One entry: where its local header begins, its sizes in the file and unpacked, how it is stored, its checksum."""

    name: str
    header: int
    packed: int
    size: int
    method: int
    checksum: int


class Archive:
    """The entries of an archive by name; P002 where its directory is damaged."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.entries: dict[str, Entry] = {}
        start, count, size = self._directory()
        data = source.read(start, size, "directory")
        at = 0
        for _ in range(count):
            self._require(at + _CENTRAL.size <= len(data), "directory")
            entry, at = self._entry(data, at)
            self._require(entry.name not in self.entries, entry.name)
            self.entries[entry.name] = entry
        # Entries that lie on each other would make a small file a large value.
        self._require(sum(entry.packed for entry in self.entries.values()) <= source.size, "directory")

    def _require(self, condition: object, entry: str) -> None:
        require(condition, "P002", f"load: {self.source.name} is truncated or damaged", entry=entry)

    def _directory(self) -> tuple[int, int, int]:
        """Start, number of entries and bytes of the directory."""
        source = self.source
        span = min(source.size, _END.size + 0xFFFF)
        tail = source.read(source.size - span, span, "directory")
        at = tail.rfind(b"PK\x05\x06", 0, len(tail) - _END.size + 4)
        self._require(at >= 0, "directory")
        _, disk, _, _, count, size, start, _ = _END.unpack_from(tail, at)
        position = source.size - span + at
        if (count == 0xFFFF or size == _FULL or start == _FULL) and position >= _LOCATOR.size:
            mark, _, far, _ = _LOCATOR.unpack(source.read(position - _LOCATOR.size, _LOCATOR.size, "directory"))
            if mark == b"PK\x06\x07":
                _, _, _, _, _, _, _, count, size, start = _END64.unpack(source.read(far, _END64.size, "directory"))
        self._require(not disk and count * _CENTRAL.size <= size, "directory")
        return start, count, size

    def _entry(self, data: bytes, at: int) -> tuple[Entry, int]:
        mark, _, _, flags, method, _, _, checksum, packed, size, *rest = _CENTRAL.unpack_from(data, at)
        names, extras, comments, _, _, _, header = rest
        begin = at + _CENTRAL.size
        end = begin + names + extras + comments
        self._require(mark == b"PK\x01\x02" and end <= len(data), "directory")
        name = data[begin : begin + names].decode("utf-8" if flags & _UTF8 else "cp437", "replace")
        require(not flags & 1, "P005", f"load: {self.source.name} is encrypted", entry=name)
        wide = iter(self._wide(data[begin + names : begin + names + extras], name))
        size = next(wide, -1) if size == _FULL else size
        packed = next(wide, -1) if packed == _FULL else packed
        header = next(wide, -1) if header == _FULL else header
        self._require(min(size, packed, header) >= 0, name)
        return Entry(name, header, packed, size, method, checksum), end

    def _wide(self, extra: bytes, name: str) -> tuple[int, ...]:
        """The numbers of 64 bits in an entry's extra field."""
        at = 0
        while at + 4 <= len(extra):
            kind, size = struct.unpack_from("<2H", extra, at)
            if kind == 1:
                field = extra[at + 4 : at + 4 + size]
                self._require(len(field) == size, name)
                return struct.unpack(f"<{size // 8}Q", field[: size // 8 * 8])
            at += 4 + size
        return ()

    def place(self, name: str) -> int:
        """Return where a stored entry's data begin; P005 where they are packed."""
        entry = self.entries[name]
        hint = "store the entries without compression"
        require(
            entry.method == _STORED,
            "P005",
            f"load: {self.source.name} has a compressed entry",
            entry=name,
            hint=hint,
        )
        self._require(entry.size == entry.packed, name)
        return self._data_start(entry)

    def _data_start(self, entry: Entry) -> int:
        header = _LOCAL.unpack(self.source.read(entry.header, _LOCAL.size, entry.name))
        self._require(header[0] == b"PK\x03\x04", entry.name)
        start = entry.header + _LOCAL.size + header[9] + header[10]
        self.source.check(start, entry.packed, entry.name)
        return start

    def read(self, name: str) -> bytes:
        """Return an entry's data, unpacked; P002 where the checksum differs."""
        entry = self.entries[name]
        data = self.source.read(self._data_start(entry), entry.packed, name)
        if entry.method == _DEFLATED:
            data = self._inflate(data, entry)
        else:
            self.place(name)
        self.check(data, name)
        return data

    def _inflate(self, data: bytes, entry: Entry) -> bytes:
        """Unpack data, as long as they are what the directory says."""
        self._require(entry.size <= len(data) * _MOST_DEFLATED, entry.name)
        packer = zlib.decompressobj(-15)
        try:
            unpacked = packer.decompress(data, entry.size + 1)
        except zlib.error as cause:
            raise error("P002", f"load: {self.source.name} is truncated or damaged", entry=entry.name) from cause
        self._require(len(unpacked) == entry.size and packer.eof, entry.name)
        return unpacked

    def check(self, data: Part, name: str) -> None:
        """P002 unless data have the checksum of their entry."""
        fits = zlib.crc32(data) == self.entries[name].checksum
        hint = "mmap=True does not compare checksums, for files that were written without"
        if not fits:
            fail("P002", f"load: {self.source.name} is truncated or damaged: a checksum", entry=name, hint=hint)


def archive_parts(contents: Iterable[tuple[str, Part]]) -> Iterable[Part]:
    """Yield an archive's bytes part by part: stored entries, each one's data on a multiple of 64 bytes."""
    position = 0
    directory: list[bytes] = []
    for name, data in contents:
        text, size, checksum = name.encode(), len(data), zlib.crc32(data)
        wide = struct.pack("<2H2Q", 1, 16, size, size) if size >= _FULL else b""
        fill = -(position + _LOCAL.size + len(text) + len(wide) + 4) % ALIGNMENT
        extra = wide + struct.pack("<2s1H", b"FB", fill) + b"Z" * fill
        shown, version = (_FULL, _ZIP64_VERSION) if wide else (size, 0)
        fields = (version, _UTF8, _STORED, 0, 0, checksum, shown, shown, len(text))
        yield _LOCAL.pack(b"PK\x03\x04", *fields, len(extra)) + text + extra
        yield data
        directory.append(_directory_entry(fields, text, size if wide else None, position))
        position += _LOCAL.size + len(text) + len(extra) + size
    listing = b"".join(directory)
    yield listing
    yield _end(len(directory), len(listing), position)


def _directory_entry(fields: tuple[int, ...], name: bytes, size: int | None, position: int) -> bytes:
    numbers = [] if size is None else [size, size]
    far = position >= _FULL
    numbers += [position] if far else []
    wide = struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers) if numbers else b""
    version = _ZIP64_VERSION if wide else 0
    field_value = _FULL if far else position
    return _CENTRAL.pack(b"PK\x01\x02", version, version, *fields[1:], len(wide), 0, 0, 0, 0, field_value) + name + wide


def _end(count: int, size: int, start: int) -> bytes:
    far = b""
    if count >= 0xFFFF or size >= _FULL or start >= _FULL:
        record = (_END64.size - 12, _ZIP64_VERSION, _ZIP64_VERSION, 0, 0, count, count, size, start)
        far = _END64.pack(b"PK\x06\x06", *record) + _LOCATOR.pack(b"PK\x06\x07", 0, start + size, 1)
    few, short, near = min(count, 0xFFFF), min(size, _FULL), min(start, _FULL)
    return far + _END.pack(b"PK\x05\x06", 0, 0, few, few, short, near, 0)
