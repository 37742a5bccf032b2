"""The backends that `rl.compile` knows by name."""

from __future__ import annotations

from rushlight import build


def list_backends(exclude_tags: object = ()) -> list[str]:
    """The names that `rl.compile` takes as `backend`, in order; a callable is one too. There are no tags to exclude."""
    return sorted(build.BACKENDS)
