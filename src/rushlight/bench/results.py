"""What a run found, as a record of plain values: it is what the JSON file has, and all that reports look at."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rushlight.bench.checking import reference
from rushlight.bench.contestants import OURS
from rushlight.bench.records import Array, Case
from rushlight.bench.timing import Entrant, Turn, ratio, rounds_within, spread, take_turns

Record = dict[str, Any]


class Ceilings(NamedTuple):
    """Samples of what the processor could do at most, all threads together."""

    gflop_per_s: list[float]
    gb_per_s: list[float]

    def highest(self) -> tuple[float, float]:
        """The best of each so far."""
        return max(self.gflop_per_s), max(self.gb_per_s)

    def to_record(self) -> Record:
        """The medians are for reading; the best are what shares are taken of."""
        return {
            "gflop_per_s": max(self.gflop_per_s),
            "gb_per_s": max(self.gb_per_s),
            "gflop_per_s_median": statistics.median(self.gflop_per_s),
            "gb_per_s_median": statistics.median(self.gb_per_s),
            "gflop_per_s_samples": self.gflop_per_s,
            "gb_per_s_samples": self.gb_per_s,
        }


def measure(case: Case, entrants: Sequence[Entrant], rounds: int, budget: float, say: Callable[[str], None]) -> Record:
    """Prepares and checks everyone, then times those whose results are right, in turns."""
    say(f"{case.name}:")
    inputs = case.inputs()
    about = {name: f"{value.dtype}{list(value.shape)}" for name, value in inputs.items()}
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-") as folder:
        store(Path(folder) / "inputs.npz", inputs)
        store(Path(folder) / "expected.npz", {f"{number}": one for number, one in enumerate(reference(case, inputs))})
        inputs.clear()
        answers: dict[str, Record] = {}
        for entrant in entrants:
            say(f" {entrant.name}")
            answers[entrant.name] = entrant.ask("prepare", case=case.name, folder=folder)
    turns = [Turn(one, answers[one.name]["call_s"]) for one in entrants if answers[one.name]["status"] == "ready"]
    say(" samples\n")
    seconds, failed = take_turns(turns, rounds_within(turns, rounds, budget))
    for entrant in entrants:
        if answers[entrant.name]["status"] == "ready":
            entrant.ask("forget")
    repeats = {turn.entrant.name: {"calls_per_sample": turn.repeat, "warm": turn.warm} for turn in turns}
    entries = {name: {**repeats.get(name, {}), **answer, **failed.get(name, {})} for name, answer in answers.items()}
    return to_record(case, about, entries, seconds)


def store(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays for workers to read."""
    np.savez(path, allow_pickle=False, **arrays)


def to_record(
    case: Case, about: Mapping[str, str], entries: Mapping[str, Record], seconds: Mapping[str, Sequence[float]]
) -> Record:
    """A case's results: medians, rates, and the ratios of our times to those of others."""
    filled: dict[str, Record] = {}
    for name, entry in entries.items():
        filled[name] = dict(entry)
        if name in seconds:
            middle, low, high = spread(seconds[name])
            filled[name] |= {"median_s": middle, "p10_s": low, "p90_s": high, "samples_s": list(seconds[name])}
            filled[name] |= {"gflop_per_s": case.flops / middle / 1e9, "gb_per_s": case.bytes / middle / 1e9}
    peers = {name: taken for name, taken in seconds.items() if name not in OURS}
    best = min(peers, key=lambda name: filled[name]["median_s"], default=None)
    ratios = {name: ratio(seconds["rushlight"], taken) for name, taken in peers.items() if "rushlight" in seconds}
    return {
        "case": case.name,
        "family": case.family,
        "dtype": case.dtype,
        "inputs": dict(about),
        "flops": case.flops,
        "bytes": case.bytes,
        "tolerance": case.allowed,
        "contestants": filled,
        "best_peer": best,
        "ratios": ratios,
    }
