"""Tags of custom operators: how their operands lie in compiled programs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import cast

from rushlight.ops.record import Fact
from rushlight.support.errors import fail


class Tag(Enum):
    """What a custom operator says of itself, with PyTorch's names."""

    needs_exact_strides = auto()
    """Compiled, it gets operands with the strides that they have eagerly."""
    needs_contiguous_strides = auto()
    """Compiled, it gets operands that are row-major."""
    needs_fixed_stride_order = auto()
    """Compiled, it gets operands with eager code's order of elements, perhaps without gaps: as without a tag."""
    flexible_layout = auto()
    """It takes operands as they lie."""
    pt2_compliant_tag = auto()
    """It is right in compiled programs, as all are here."""


_LAYOUTS = {Tag.needs_exact_strides: Fact.EXACT_STRIDES, Tag.needs_contiguous_strides: Fact.ROW_MAJOR}
_ORDERS = (*_LAYOUTS, Tag.needs_fixed_stride_order, Tag.flexible_layout)


def layout_of(tags: object) -> Fact:
    """What a tag, or several, say of operands. Errors: A010."""
    given: list[object] = [] if tags is None else [tags]
    if isinstance(tags, Iterable) and not isinstance(tags, str | Tag):
        given = list(cast(Iterable[object], tags))
    layouts: list[Tag] = []
    for tag in given:
        if not isinstance(tag, Tag):
            fail("A010", f"library: {tag!r} is no tag", hint=f"tags are {', '.join([str(tag) for tag in Tag])}")
        if tag in _ORDERS:
            layouts.append(tag)
    if len(layouts) > 1:
        names = ", ".join([tag.name for tag in layouts])
        fail("A010", "library: tags say two layouts", tags=names, hint="give one of them")
    return _LAYOUTS.get(layouts[0], Fact.NONE) if layouts else Fact.NONE
