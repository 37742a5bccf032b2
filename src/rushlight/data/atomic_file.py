"""Files that appear whole or not at all: written beside their target, synced, and renamed to it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Iterable

from rushlight.support.errors import error


def write_atomically(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Write a temporary file beside the target, sync it and rename it to the target.

    A target that is no regular file (a pipe, a device) is written directly.
    """
    try:
        if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "wb", buffering=0) as special:
                _write_all(special.fileno(), parts)
            return
        folder, name = os.path.split(path)
        _remove_left(folder)
        temporary = os.path.join(folder, f".{name}.{_host()}-{os.getpid()}-{secrets.token_hex(6)}.tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
            try:
                _write_all(descriptor, parts)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    except OSError as cause:
        raise error("P003", f"save: {path} could not be written: {cause.strerror}") from cause


_LEFT = re.compile(r"^\..+\.(?P<host>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{12}\.tmp$")
_LEFT_SECONDS = 60.0


def _host() -> str:
    """Return this machine's name as eight letters: process numbers of other machines mean nothing here."""
    return f"{zlib.crc32(os.uname().nodename.encode()):08x}" if hasattr(os, "uname") else "00000000"


def _remove_left(folder: str) -> None:
    """Remove unfinished files from a folder that processes left when they were killed while saving."""
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            match = _LEFT.match(entry.name) if entry.name.endswith(".tmp") else None
            if match is None or match["host"] != _host() or _lives(int(match["process"])):
                continue
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _LEFT_SECONDS:
                os.unlink(entry.path)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _write_all(descriptor: int, parts: Iterable[bytes | memoryview]) -> None:
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]


def _sync_folder(folder: str) -> None:
    """Put the rename itself on the disk, where the system can; the file is whole either way."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
