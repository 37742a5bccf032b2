"""Where the value of a symbol comes from, in words and as users write it."""

from __future__ import annotations

import re
from enum import Enum, auto

from rushlight.support.frozen import frozen
from rushlight.support.provenance import Frame

# A line that gives the one value that it asks for a name: `n = x.sum().item()`.
_NAMED = r"(\w+) = (?!.*item.*item)[\w.\[\]()]+\.item\(\)$"


class OriginKind(Enum):
    """What tells a symbol's value, which decides where users can say what is true of it."""

    PLACE = auto()  # a size, stride or number that a call brings
    MARKED = auto()  # a size of a dim that was marked unbacked
    SPECIFIED = auto()  # a variable of a specification
    VALUE = auto()  # elements of a tensor
    TRUTH = auto()  # the one element of a bool tensor: 0 or 1


@frozen
class Origin:
    """Where a symbol's value comes from: `what` it is, and the user's line that made it known, if there is one.

    `written` is how users write it in Python, or in the specification: `x.shape[0]`.
    """

    what: str
    kind: OriginKind = OriginKind.PLACE
    frame: Frame | None = None
    written: str | None = None

    @property
    def name(self) -> str | None:
        """How users write it: as it was said, or by the name that the user's line gives it."""
        if self.written is None and self.frame is not None and self.kind is OriginKind.VALUE:
            match = re.match(_NAMED, self.frame.source)
            return None if match is None else match[1]
        return self.written

    def __str__(self) -> str:
        plain = self.written is None or self.kind is OriginKind.SPECIFIED  # whose name is the symbol's
        said = self.what if plain else f"{self.written}, {self.what}"
        return said if self.frame is None else f"{said}, {self.frame}"

    def __error_text__(self) -> str:
        """How errors print it."""
        return str(self)
