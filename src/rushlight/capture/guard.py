"""Guards: what a compiled trace takes for granted, as data. `check` lines are generated from it, `explain` reads it."""

from __future__ import annotations

from rushlight.support.frozen import frozen


@frozen
class Guard:
    """One assumption. `failed` is a Python expression that is true if it does not hold; it binds no looser than `or`.

    `path` and `expected` are for people.
    """

    kind: str
    path: str
    expected: str
    failed: str

    def __str__(self) -> str:
        return f"{self.path} is not {self.expected}"
