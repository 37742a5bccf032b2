"""Names of a graph's inputs, and what arguments are to a specification."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rushlight.eager.handle import Handle
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.ir.type import row_major

_ORDINAL = re.compile(r"\(ordinal0 \+ (\d+)\)")
_WORD = re.compile(r"\W+")
SEED = "seed0"


def identifier(text: str) -> str:
    """A name made of a text."""
    return _WORD.sub("_", text).strip("_")


def unique(name: str, taken: set[str]) -> str:
    """The name, or one with a number that is not taken; it is from now on."""
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}_{count}", count + 1
    taken.add(candidate)
    return candidate


def ordinal_of(text: str) -> int | None:
    """How many random calls come before the one whose ordinal has this text. None if it is no ordinal."""
    match = _ORDINAL.fullmatch(text)
    return None if match is None else int(match[1])


def kinds_of(leaves: Sequence[object]) -> list[object]:
    """The leaves of a call as specifications know them. What is run call by call takes elements in any order."""
    return [row_major(leaf.form.type) if isinstance(leaf, Handle) else leaf for leaf in leaves]


def argument_titles(spec: ParamsSpec, names: Sequence[str]) -> list[str]:
    """Names for the leaves of arguments; `names` are those of positional ones."""
    places = {f"argument {position}": name for position, name in enumerate(names)}
    titles: list[str] = []
    for path in spec.paths:
        head, mark, rest = path.partition("[")
        titles.append(identifier(places.get(head, head) + mark + rest))
    return titles
