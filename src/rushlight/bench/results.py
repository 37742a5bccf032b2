"""A run's results as a record of plain values: the JSON file's content, and the only input of reports."""

from __future__ import annotations

import platform
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rushlight.bench.checking import reference
from rushlight.bench.contestants import OURS
from rushlight.bench.copying import CopyBandwidth
from rushlight.bench.peak import FmaPeak
from rushlight.bench.records import Array, Case, Inputs, Record
from rushlight.bench.timing import Entrant, Turn, ratio, rounds_within, spread, take_turns
from rushlight.runtime import llvm

CEILING_SECONDS = 0.01  # that a sample of a ceiling takes, about


class Ceiling:
    """A limit of the machine. It takes turns with the contestants, on the amount of a case's work.

    `rate(amount)` is in thousands of millions a second, of operations or bytes.
    """

    def __init__(self, name: str, rate: Callable[[float], float]) -> None:
        self.name = name
        self.rate = rate
        self.amount = 0.0
        self.samples: list[float] = []

    def ask(self, do: str, **values: object) -> Record:
        """A sample, whatever the question."""
        self.samples.append(self.rate(self.amount))
        return {"status": "ready", "seconds": self.amount / self.samples[-1] / 1e9}


class Ceilings(NamedTuple):
    """The two ceilings, with all threads together."""

    peak: Ceiling
    copy: Ceiling

    def turns_for(self, case: Case) -> list[Turn]:
        """Their turns beside a case."""
        self.peak.amount, self.copy.amount = case.flops, case.bytes
        return [Turn(one, CEILING_SECONDS) for one in self]

    def to_record(self) -> Record:
        """The medians of a run, for reading, and its samples."""
        return {
            "gflop_per_s": statistics.median(self.peak.samples),
            "gb_per_s": statistics.median(self.copy.samples),
            "gflop_per_s_samples": self.peak.samples,
            "gb_per_s_samples": self.copy.samples,
        }


def ceilings_of(threads: int) -> Ceilings:
    """The ceilings of this machine with so many threads."""
    peak, copies = FmaPeak(), CopyBandwidth()
    return Ceilings(
        Ceiling("peak", lambda _: peak.sample(threads)), Ceiling("copy", lambda moved: copies.sample(threads, moved))
    )


def machine_record(threads: int) -> Record:
    """Where something is measured."""
    return {"processor": llvm.host_target().cpu, "python": platform.python_version(), "threads": threads}


def prepare_all(
    case: str, entrants: Sequence[Entrant], inputs: Inputs, expected: Sequence[Array], say: Callable[[str], None]
) -> dict[str, Record]:
    """Every entrant's answer, by name, to whether it is ready for a case, and gives what is expected."""
    with tempfile.TemporaryDirectory(prefix="rushlight-bench-") as folder:
        store(Path(folder) / "inputs.npz", inputs)
        store(Path(folder) / "expected.npz", {f"{number}": one for number, one in enumerate(expected)})
        answers: dict[str, Record] = {}
        for entrant in entrants:
            say(f" {entrant.name}")
            answers[entrant.name] = entrant.ask("prepare", case=case, folder=folder)
    return answers


def sample_all(
    turns: Sequence[Turn], ceilings: Sequence[Turn], answers: Mapping[str, Record], rounds: int, budget: float
) -> tuple[dict[str, Record], dict[str, list[float]]]:
    """Entries of entrants, with how they were sampled or why they failed; and the seconds of samples."""
    everyone = [*turns, *ceilings]
    seconds, failed = take_turns(everyone, rounds_within(everyone, rounds, budget))
    for turn in turns:
        turn.entrant.ask("forget")
    repeats = {turn.entrant.name: {"calls_per_sample": turn.repeat, "warm": turn.warm} for turn in turns}
    entries = {name: {**repeats.get(name, {}), **answer, **failed.get(name, {})} for name, answer in answers.items()}
    return entries, seconds


def measure(
    case: Case,
    entrants: Sequence[Entrant],
    ceilings: Ceilings,
    rounds: int,
    budget: float,
    say: Callable[[str], None],
) -> Record:
    """Prepares and checks all contestants, then times the correct ones in turns with the ceilings."""
    say(f"{case.name}:")
    entrants = [one for one in entrants if not case.contestants or one.name in case.contestants]
    inputs = case.inputs()
    about = described(inputs)
    answers = prepare_all(case.name, entrants, inputs, reference(case, inputs), say)
    inputs.clear()
    turns = [Turn(one, answers[one.name]["call_s"]) for one in entrants if answers[one.name]["status"] == "ready"]
    say(" samples\n")
    return to_record(case, about, *sample_all(turns, ceilings.turns_for(case), answers, rounds, budget))


def described(inputs: Inputs) -> dict[str, str]:
    """The dtype and shape of each array."""
    return {name: f"{value.dtype}{list(value.shape)}" for name, value in inputs.items()}


def store(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays for workers to read."""
    np.savez(path, allow_pickle=False, **arrays)


def to_record(
    case: Case, about: Mapping[str, str], entries: Mapping[str, Record], seconds: Mapping[str, Sequence[float]]
) -> Record:
    """A case's results: medians, rates, the ratios of our times to the peers', our shares of the ceilings."""
    shares: dict[str, float] = {}
    ours = next((name for name in OURS if name in seconds), None)
    if ours is not None:
        shares = {name: ratio(seconds[name], seconds[ours]) for name in Ceilings._fields if name in seconds}
    seconds = {name: taken for name, taken in seconds.items() if name not in Ceilings._fields}
    filled: dict[str, Record] = {}
    for name, entry in entries.items():
        filled[name] = dict(entry)
        if name in seconds:
            middle, low, high = spread(seconds[name])
            filled[name] |= {"median_s": middle, "p10_s": low, "p90_s": high, "samples_s": list(seconds[name])}
            filled[name] |= {"gflop_per_s": case.flops / middle / 1e9, "gb_per_s": case.bytes / middle / 1e9}
    peers = {name: taken for name, taken in seconds.items() if name not in OURS}
    best = min(peers, key=lambda name: filled[name]["median_s"], default=None)
    ratios = {} if ours is None else {name: ratio(seconds[ours], taken) for name, taken in peers.items()}
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
        "shares": shares,
    }
