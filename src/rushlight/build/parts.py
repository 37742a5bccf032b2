"""What compiles the calls of regions, known before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushlight.build.executable import Executable
    from rushlight.ir.graph import Graph

    CompilePart = Callable[[Graph], Executable]

PARTS: dict[int, CompilePart] = {}
"""By the number of the region."""
