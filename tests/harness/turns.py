"""Families of generated tests take turns: each day a part of every family is asked, and `pytest --full` asks all."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import pytest


def due(members: Iterable[str], turns: int, day: int) -> set[str]:
    """The members of one family that are asked on a day: one in `turns`, and at least one.

    A member comes once in `min(turns, number of members)` days.
    """
    ranked = sorted(members, key=lambda name: (crc32(name.encode()), name))
    parts = min(turns, len(ranked))
    return {name for rank, name in enumerate(ranked) if (rank - day) % parts == 0}


def not_due(items: Iterable[pytest.Item], turns: int, day: int, named: Iterable[str]) -> set[pytest.Item]:
    """The tests marked `generated` that are left out on a day; never those that are `named` on the command line.

    A family is a test function, or all that their markers give one name (`family=`), for each value of the parameters
    that the markers name.
    """
    tails = [name.partition("::")[2] for name in named if "[" in name]
    families: dict[object, list[pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker("generated")
        if marker is not None and item.nodeid.partition("::")[2] not in tails:
            family = marker.kwargs.get("family", item.nodeid.partition("[")[0])
            families.setdefault((family, _values(item, marker.args)), []).append(item)
    asked = {name for family in families.values() for name in due([item.nodeid for item in family], turns, day)}
    return {item for family in families.values() for item in family if item.nodeid not in asked}


def _values(item: pytest.Item, names: Iterable[str]) -> tuple[str, ...]:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        raise pytest.UsageError(f"{item.nodeid} is marked `generated`, and has no parameters")
    return tuple([repr(callspec.params[name]) for name in names])
