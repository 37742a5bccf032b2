"""The nearest known name to a mistaken one, for hints in errors."""

import functools
from collections.abc import Iterable


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that `name` was probably meant to be, or None when nothing is near.

    Case, underscores and hyphens do not count. One edit in three characters may differ, a swap of neighbours being
    one edit; ties go to the candidate that sorts first.
    """
    return _nearest(name, tuple(candidates))


# Programs ask for names that may not be there again and again (`hasattr`), and a thousand distances take milliseconds.
@functools.lru_cache(maxsize=512)
def _nearest(name: str, candidates: tuple[str, ...]) -> str | None:
    folded = _fold(name)
    allowed = max(1, len(folded) // 3)
    best: tuple[int, str] | None = None
    for candidate in candidates:
        distance = _distance(folded, _fold(candidate), allowed)
        if distance is not None and (best is None or (distance, candidate) < best):
            best = (distance, candidate)
    return None if best is None else best[1]


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """Return the hint `did you mean X?`, or None when nothing is near."""
    candidate = nearest_name(name, candidates)
    return None if candidate is None else f"did you mean {candidate}?"


def _fold(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _distance(left: str, right: str, allowed: int) -> int | None:
    """Optimal string alignment distance (Damerau 1964), or None when it is above `allowed`."""
    # An edit changes the length by one at most, and the letters by one that comes and one that goes.
    if abs(len(left) - len(right)) > allowed or len({*left} ^ {*right}) > 2 * allowed:
        return None
    before: list[int] = []
    above = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            edits = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and b == left[i - 2]:
                edits = min(edits, before[j - 2] + 1)
            row.append(edits)
        if min(row) > allowed:
            return None
        before, above = above, row
    return above[-1] if above[-1] <= allowed else None
