"""Criteo's click logs as text: lines of numbers, ids and labels with tabs between."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence

from rushlight.recsys.datasets.criteo import DEFAULT_COLUMN_NAMES, INT_FEATURE_COUNT
from rushlight.utils.data import IterableDataset, get_worker_info

Row = dict[str, int | str]


def _row(fields: list[str]) -> Row:
    """The columns of a line by name, the last ones where there are fewer. Numbers that are missing are 0."""
    names = DEFAULT_COLUMN_NAMES[-len(fields) :]
    numbers = DEFAULT_COLUMN_NAMES[: 1 + INT_FEATURE_COUNT]
    return {name: _number(field) if name in numbers else field for name, field in zip(names, fields, strict=True)}


def _number(field: str) -> int:
    try:
        return int(field)
    except ValueError:
        return 0


class CriteoIterDataPipe(IterableDataset[object]):
    """The lines of files of click logs, which workers of a DataLoader share by file.

    CriteoIterDataPipe(["day_0.tsv"], row_mapper=None)

    `row_mapper` makes an example of the fields of a line; None leaves the fields.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        row_mapper: Callable[[list[str]], object] | None = _row,
    ) -> None:
        self.paths, self.row_mapper = list(paths), row_mapper

    def __iter__(self) -> Iterator[object]:
        worker = get_worker_info()
        paths = self.paths if worker is None else self.paths[worker.id :: worker.num_workers]
        for path in paths:
            with open(path, newline="") as file:
                for fields in csv.reader(file, delimiter="\t"):
                    yield fields if self.row_mapper is None else self.row_mapper(fields)


def criteo_terabyte(
    paths: Sequence[str | os.PathLike[str]], *, row_mapper: Callable[[list[str]], object] | None = _row
) -> CriteoIterDataPipe:
    """Return the lines of the log of a terabyte."""
    return CriteoIterDataPipe(paths, row_mapper=row_mapper)


def criteo_kaggle(
    path: str | os.PathLike[str], *, row_mapper: Callable[[list[str]], object] | None = _row
) -> CriteoIterDataPipe:
    """Return the lines of the log of Kaggle's contest; those of its test have no labels."""
    return CriteoIterDataPipe([path], row_mapper=row_mapper)
