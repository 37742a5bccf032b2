"""The line about missing names, at the end of a process."""

from __future__ import annotations

import sys

from rushlight.support.peer_names import absent_names


def absent_line() -> str:
    """Return which missing names of torch were asked for, and how often; empty if there were none."""
    listed = [f"{name} ({times})" for name, times in sorted(absent_names().items())]
    return f"rushlight: torch names that do not exist here: {', '.join(listed)}" if listed else ""


def write_absent() -> None:
    """Write the line to standard error, if there is anything to say."""
    line = absent_line()
    if line and sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
