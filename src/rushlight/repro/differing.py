"""What two scripts do not share: settings, versions, inputs, graphs, and the stages of their compilation."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from rushlight.repro.bisecting import stages
from rushlight.repro.script import Script
from rushlight.support import settings


def differences(one: Script, other: Script, names: tuple[str, str] = ("A", "B")) -> Iterator[str]:
    """Yield the lines that tell the differences of two scripts; none where they are alike."""
    for title in ("settings", "versions"):
        mine, theirs = dict(getattr(one, title)), dict(getattr(other, title))
        for key in sorted({*mine, *theirs}):
            if mine.get(key) != theirs.get(key):
                yield f"{title}: {key} is {mine.get(key)!r} in {names[0]}, {theirs.get(key)!r} in {names[1]}"
    if len(one.inputs) != len(other.inputs):
        yield f"inputs: {len(one.inputs)} in {names[0]}, {len(other.inputs)} in {names[1]}"
    for position, (a, b) in enumerate(zip(one.inputs, other.inputs, strict=False)):
        if a != b:
            kinds = [f"{given.dtype}{list(given.shape)} strides {list(given.strides)}" for given in (a, b)]
            yield f"input {position}: " + (" and ".join(kinds) if kinds[0] != kinds[1] else "other elements")
    if one.digest != other.digest:
        yield f"digest: {one.digest[:16]} and {other.digest[:16]}"
    yield from _stages(one, other, names)


def _stages(one: Script, other: Script, names: tuple[str, str]) -> Iterator[str]:
    """The first stage whose texts differ, and which later ones do."""
    later: list[str] = []
    told = False
    for (name, a), (_, b) in zip(_texts(one), _texts(other), strict=True):
        if a != b and told:
            later.append(name)
        elif a != b:
            told = True
            titles = [f"{each}/{name}" for each in names]
            yield from difflib.unified_diff(a.splitlines(), b.splitlines(), titles[0], titles[1], lineterm="")
    if later:
        yield f"and so do the stages {', '.join(later)}"


def _texts(script: Script) -> list[tuple[str, str]]:
    """Each stage's name and text, under the script's settings."""
    with settings.override(**dict(script.settings)):
        return [(step.stage, step.show(value)) for step, value in stages(script.parsed)]
