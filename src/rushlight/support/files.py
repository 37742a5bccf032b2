"""Reads files of a folder that others may write to: only regular files, and never blocking."""

from __future__ import annotations

import errno
import os
import stat


def regular_bytes(path: str | os.PathLike[str]) -> tuple[bytes, float]:
    """Return a regular file's bytes and the time of its last change in seconds since the epoch.

    Opening a pipe would wait for a writer, for ever. OSError (EINVAL) if the file is not a regular one.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        return file.read(), status.st_mtime
