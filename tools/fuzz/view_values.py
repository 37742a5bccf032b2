"""What a program of views knows of its values, and how its views and operands are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.support.frozen import frozen


@frozen(eq=False)
class Shown:
    """What is known of a value: where its elements lie in how large a storage, and whether it may be written to."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    room: int
    writable: bool

    @property
    def is_float(self) -> bool:
        """Whether it may have a gradient."""
        return self.dtype.startswith("float")

    @property
    def overlaps(self) -> bool:
        """Whether several elements may be one place in memory."""
        reach = 0
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size > 1:
                if stride <= reach:
                    return True
                reach += stride * (size - 1)
        return False


Found = tuple[str, Sequence[int], Sequence[int], int, str] | None
"""A view: its text, shape, strides, offset and dtype."""

Fitting = Callable[[tuple[int, ...], str | None], Shown | None]
"""What finds a value that broadcasts to a shape, of a dtype."""


def replaced(items: Sequence[int], at: int, *new: int) -> tuple[int, ...]:
    """The items with others in the place of one."""
    return (*items[:at], *new, *items[at + 1 :])
