"""What an error in a kernel adds: the tiles that its function holds, with their types."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType

from rushlight.eager.handle import Handle
from rushlight.support.errors import RushlightError, printed
from rushlight.tile.ranges import Tile


@contextmanager
def describe_tiles(function: Callable[..., object]) -> Generator[None]:
    """Adds to an error what the variables of the function hold at the line that fails."""
    try:
        yield
    except RushlightError as report:
        frame = _frame_of(function, report.__traceback__)
        if frame is not None:
            held = [
                f"{name}: {value!r}" if isinstance(value, Tile) else f"{name}: {printed(value)}"
                for name, value in frame.f_locals.items()
                if isinstance(value, (Tile, Handle))
            ]
            report.add_note("\n".join([f"in the kernel {function.__name__}:", *[f"    {line}" for line in held]]))
        raise


def _frame_of(function: Callable[..., object], traceback: TracebackType | None) -> FrameType | None:
    code = getattr(function, "__code__", None)
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            return traceback.tb_frame
        traceback = traceback.tb_next
    return None
