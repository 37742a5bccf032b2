"""Writes samples that agreed to a file: `python -m tools.opdb.freezing FOLDER FILE`, after a run into FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

from tools.opdb import pytorch, report, running
from tools.opdb.calls import Array, leaves
from tools.opdb.deviations import RANDOM
from tools.opdb.recorded import Recorded, write

MOST_ELEMENTS = 600
SAMPLES = 2


def agreed(result: dict[str, Any]) -> list[str]:
    """The dtypes in which all that was asked of an operator agreed."""
    return [
        dtype
        for dtype, counts in result["dtypes"].items()
        if dtype and all(key.endswith("/agree") for key in counts if key.startswith(("forward", "gradient")))
    ]


def chosen(entry: Any, dtype_name: str) -> Iterator[Recorded]:
    """The first small samples of an operator in a dtype."""
    dtype, found = getattr(pytorch.torch, dtype_name), 0
    for sample in pytorch.samples_of(entry, dtype, entry.supports_autograd and dtype.is_floating_point, False):
        call = pytorch.call_of(sample)
        size = sum(leaf.storage.size for leaf in leaves([call.args, call.kwargs]) if isinstance(leaf, Array))
        if size > MOST_ELEMENTS or found == SAMPLES:
            continue
        outcome = pytorch.run(entry.op, sample, sample.output_process_fn_grad)
        if outcome.error is None:
            found += 1
            yield Recorded(entry.name, call, outcome.results, outcome.gradients, pytorch.tolerances(entry, dtype))


def main(folder: Path, path: Path) -> None:
    """Record every operator that agreed and needs no wrapper of the database."""
    samples: list[Recorded] = []
    for entry in pytorch.operators():
        results = running.file_of(folder, pytorch.label(entry))
        wrapped = isinstance(entry.op, FunctionType) and entry.op.__module__.startswith("torch.testing")
        if entry.name in RANDOM or wrapped or not results.exists():
            continue
        for dtype in agreed(report.read(results)):
            samples += chosen(entry, dtype)
    write(path, samples)
    print(f"{len(samples)} samples, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
