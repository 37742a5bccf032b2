"""Errors of this package: they show the line that called it."""

from __future__ import annotations

from pathlib import Path

import rushlight as rl
from rushlight.support.errors import error
from rushlight.support.provenance import user_frames

_FOLDER = str(Path(__file__).parent)


def refusal(code: str, message: str, hint: str | None = None, **values: object) -> rl.RushlightError:
    """The error of a registered code, at the first line outside of this package."""
    frame = next((frame for frame in user_frames() if not frame.filename.startswith(_FOLDER)), None)
    made: rl.RushlightError = error(code, f"cuda: {message}", hint=hint, frame=frame, **values)
    return made
