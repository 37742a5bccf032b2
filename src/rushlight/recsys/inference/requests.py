"""What a service is asked and what it answers: examples, joined into batches and taken apart again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.recsys.sparse.segments import prefix_sums
from rushlight.support.errors import fail, require
from rushlight.support.frozen import frozen
from rushlight.support.names import did_you_mean

Array = np.ndarray[Any, Any]


@frozen(eq=False)
class Ragged:
    """Rows of any length: what they hold one after the other, and how long they are."""

    values: Array
    lengths: Array

    def _ends(self) -> list[int]:
        return prefix_sums(self.lengths.tolist())

    def parts(self, bounds: Sequence[int]) -> list[Ragged]:
        """Return the rows between each two bounds."""
        ends, between = self._ends(), itertools.pairwise(bounds)
        return [Ragged(self.values[ends[low] : ends[high]], self.lengths[low:high]) for low, high in between]

    def tolist(self) -> list[object]:
        """Return the rows as lists."""
        return [self.values[low:high].tolist() for low, high in itertools.pairwise(self._ends())]


@frozen(eq=False)
class Request:
    """Examples: the ids of each feature, and rows of numbers by the name of their input."""

    examples: int
    features: Mapping[str, Ragged]
    dense: Mapping[str, Array]


@frozen
class Inputs:
    """What a request has: features with their tables' numbers of rows, and the widths of dense inputs."""

    features: Mapping[str, int]
    dense: Mapping[str, int]

    def request(self, given: object) -> Request:
        """Return the request of a JSON object. E030, E005 or E006 where it does not fit.

        Inputs({"user": 10}, {}).request({"features": {"user": [[1, 2], []]}})
        """
        whole = _object(given, "a request", ("features", "dense"))
        features = {name: _ragged(name, rows) for name, rows in _named(whole, "features", self.features).items()}
        dense = {
            name: _matrix(name, rows, self.dense[name]) for name, rows in _named(whole, "dense", self.dense).items()
        }
        counts = {len(rows.lengths) for rows in features.values()} | {len(rows) for rows in dense.values()}
        require(len(counts) == 1, "E030", "all inputs of a request have the same number of rows", rows=sorted(counts))
        for name, rows in features.items():
            limit = self.features[name]
            if len(rows.values) and not (rows.values.min() >= 0 and rows.values.max() < limit):
                fail("E006", f"the ids of {name!r} are from 0 to {limit - 1}")
        return Request(counts.pop(), features, dense)


def _object(given: object, what: str, names: Sequence[str]) -> dict[str, object]:
    if not isinstance(given, dict):
        fail("E030", f"{what} is no JSON object", hint='{"features": {"name": [[1, 2], []]}}')
    unknown = sorted(set(given) - set(names))
    if unknown:
        fail("E030", f"{what} has no {unknown[0]!r}", hint=did_you_mean(unknown[0], names))
    return given


def _named(whole: Mapping[str, object], part: str, wanted: Mapping[str, int]) -> dict[str, object]:
    found = _object(whole.get(part, {}), f"{part!r} of a request", list(wanted))
    missing = [name for name in wanted if name not in found]
    require(not missing, "E005", f"{part!r} of a request lacks inputs", missing=missing[:8])
    return {name: found[name] for name in wanted}


def _rows(name: str, given: object, kinds: set[type], what: str) -> tuple[list[Any], list[int]]:
    """The values of lists of lists, and the lists' lengths."""
    if not isinstance(given, list) or not all(isinstance(row, list) for row in given):
        fail("E030", f"{name!r} is no list of lists, one for each example")
    rows: list[list[Any]] = given
    values = [*itertools.chain.from_iterable(rows)]
    require(set(map(type, values)) <= kinds, "E030", f"{name!r} has values that are no {what}")
    return values, [len(row) for row in rows]


def _ragged(name: str, given: object) -> Ragged:
    values, lengths = _rows(name, given, {int}, "integers")
    try:
        ids = np.array(values, np.int64)
    except OverflowError:
        fail("E030", f"{name!r} has integers of more than 64 bits")
    return Ragged(ids, np.array(lengths, np.int64))


def _matrix(name: str, given: object, width: int) -> Array:
    values, lengths = _rows(name, given, {int, float}, "numbers")
    require(set(lengths) <= {width}, "E030", f"{name!r} has {width} numbers for each example")
    try:
        with np.errstate(over="ignore"):  # what float32 does not hold is refused below
            numbers = np.array(values, np.float32)
    except OverflowError:
        fail("E030", f"{name!r} has numbers that float32 does not hold")
    require(bool(np.isfinite(numbers).all()), "E030", f"{name!r} has numbers that are not finite")
    return numbers.reshape(len(lengths), width)


def joined(requests: Sequence[Request]) -> Request:
    """Return the examples of several requests as one."""
    if len(requests) == 1:
        return requests[0]
    first = requests[0]
    features = {
        name: Ragged(
            np.concatenate([one.features[name].values for one in requests]),
            np.concatenate([one.features[name].lengths for one in requests]),
        )
        for name in first.features
    }
    dense = {name: np.concatenate([one.dense[name] for one in requests]) for name in first.dense}
    return Request(sum([one.examples for one in requests]), features, dense)


Answer = Mapping[str, "Array | Ragged"]
"""Results by name, with a row for each example."""


def divided(answer: Answer, counts: Sequence[int]) -> list[Answer]:
    """Return the answers of requests of so many examples each."""
    bounds = prefix_sums(counts)
    parts = {name: _parts(rows, bounds) for name, rows in answer.items()}
    return [{name: own[place] for name, own in parts.items()} for place in range(len(counts))]


def _parts(rows: Array | Ragged, bounds: Sequence[int]) -> Sequence[Array | Ragged]:
    if isinstance(rows, Ragged):
        return rows.parts(bounds)
    return [rows[low:high] for low, high in itertools.pairwise(bounds)]
