"""A filled cache in one file, to be carried to another machine: a zip of its entries, and what they were made for.

Entries are found by keys that hold the processor, the compiler's version and the source of Rushlight. An archive whose
entries no key of this machine could find is refused before anything is written.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rushlight.build.key import source_digest
from rushlight.ir.target import Target
from rushlight.runtime import llvm, objects
from rushlight.support.errors import CacheError, error, fail
from rushlight.support.files import regular_bytes

_MANIFEST = "manifest.json"
_FOLDER = "entries/"
_MOST_MANIFEST_BYTES = 1 << 16
_UNREADABLE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class MadeFor:
    """What entries were made for: the processor, llvmlite's version and a digest of Rushlight's source."""

    target: Target
    llvmlite: str
    source: str

    @classmethod
    def this_machine(cls) -> MadeFor:
        """What entries are made for here."""
        return cls(llvm.host_target(), llvm.version(), source_digest())


def pack(cache: objects.ObjectCache, path: Path) -> int:
    """Writes all sound entries of a cache to a new archive at `path`; their number.

    The file appears when it is complete. RushlightError (K004) if it cannot be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    count = 0
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_MANIFEST, json.dumps(asdict(MadeFor.this_machine()), indent=1))
            for data in cache.sound_files():
                archive.writestr(f"{_FOLDER}{count}", data)
                count += 1
        partial.replace(path)
    except OSError as cause:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise error("K004", f"cache: the archive cannot be written: {cause.strerror}", path=str(path)) from cause
    return count


def unpack(path: Path, cache: objects.ObjectCache, adopt: bool = False) -> int:
    """Puts the entries of an archive into a cache; their number.

    With `adopt` code of another processor is taken if this one has all its features: this machine then makes code for
    that processor too, until the cache is cleared. RushlightError: K004 if the file is no whole archive, K005 if its
    entries are of no use here. Nothing is written then.
    """
    made_for, entries = _read(path, cache.limit_bytes)
    here = MadeFor.this_machine()
    _refuse_other_versions(made_for, here)
    is_other = made_for.target != here.target
    if is_other:
        _refuse_other_processors(made_for.target, here.target, adopt)
    for key, sections in entries:
        cache.put(key, sections)
    if is_other:
        llvm.adopt_target(made_for.target)
    return len(entries)


def _refuse_other_versions(made_for: MadeFor, here: MadeFor) -> None:
    if made_for.source != here.source:
        fail("K005", "cache: the archive is of another version of Rushlight")
    if made_for.llvmlite != here.llvmlite:
        fail("K005", "cache: the archive is of another llvmlite", archive=made_for.llvmlite, here=here.llvmlite)


def _refuse_other_processors(target: Target, host: Target, adopt: bool) -> None:
    missing = sorted(_features(target) - _features(host))
    if not llvm.runs_here(target) or missing:
        reason = "cache: the archive's code needs features that this processor lacks"
        fail("K005", reason, archive=target.cpu, here=host.cpu, features=", ".join(missing) or target.architecture)
    if not adopt:
        fail("K005", "cache: the archive is of another processor", archive=target.cpu, here=host.cpu)


def _features(target: Target) -> set[str]:
    return {feature[1:] for feature in target.features.split(",") if feature.startswith("+")}


def _read(path: Path, most_bytes: int) -> tuple[MadeFor, list[tuple[str, dict[str, bytes]]]]:
    """What an archive holds, every entry checked."""
    try:
        with zipfile.ZipFile(io.BytesIO(regular_bytes(path)[0])) as archive:
            total = sum([info.file_size for info in archive.infolist()])
            if total > most_bytes:
                fail("K004", "cache: the archive is larger than the cache may be", bytes=total, limit=most_bytes)
            made_for = _made_for(archive)
            return made_for, list(_entries(archive))
    except CacheError:
        raise
    except _UNREADABLE as cause:
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        raise error("K004", f"cache: the archive cannot be read: {reason}", path=str(path)) from cause


def _made_for(archive: zipfile.ZipFile) -> MadeFor:
    try:
        if archive.getinfo(_MANIFEST).file_size > _MOST_MANIFEST_BYTES:
            raise ValueError("its manifest is too long")
        told: Mapping[str, object] = json.loads(archive.read(_MANIFEST))
        target = told["target"]
        if not isinstance(target, dict):
            raise TypeError("its manifest names no processor")
        return MadeFor(Target(**target), str(told["llvmlite"]), str(told["source"]))
    except (KeyError, TypeError, AttributeError) as cause:
        raise ValueError(f"its manifest does not fit: {cause}") from cause


def _entries(archive: zipfile.ZipFile) -> Iterator[tuple[str, dict[str, bytes]]]:
    for info in archive.infolist():
        if info.filename.startswith(_FOLDER):
            try:
                yield objects.decode(archive.read(info))
            except objects.CorruptError as cause:
                raise ValueError(f"{info.filename} is corrupt: {cause}") from cause
