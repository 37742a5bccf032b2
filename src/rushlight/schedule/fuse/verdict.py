"""Decide, then act: the answer of every fusion question, with its reason."""

from __future__ import annotations

from rushlight.support.frozen import frozen


@frozen
class Verdict:
    """Whether, and why. `details` are what the reason speaks of."""

    ok: bool
    reason: str
    details: tuple[object, ...] = ()

    def __bool__(self) -> bool:
        return self.ok


def yes(reason: str, *details: object) -> Verdict:
    """The affirmative verdict."""
    return Verdict(True, reason, details)


def no(reason: str, *details: object) -> Verdict:
    """The negative verdict."""
    return Verdict(False, reason, details)
