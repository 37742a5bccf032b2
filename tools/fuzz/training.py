"""Fuzzer of whole training scripts: a function with a loop of many turns, compiled in parts, against eager code.

A script is drawn from models, optimizers, kinds of steps, and what goes on beside these: schedules, averages, meters,
hooks, checkpoints, loaders and effects of all kinds. What each turn shows, what is printed, what is left in the
script's globals and the error that ends it are compared, for two calls in a row of one function. Every fourth script
uses the default backend, the others `backend="eager"`. Every sixteenth is also run by two processes, of which the
second one finds what the first one has compiled.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from types import ModuleType
from typing import Any

import rushlight
from rushlight.support.frozen import frozen
from tools.fuzz.finding import Finding
from tools.fuzz.training_features import FEATURES
from tools.fuzz.training_pieces import MODELS, OPTIMIZERS, STEP_FORWARD, STEPS, Piece, Step

TURNS = 11
_CALLS = 2
_FEWEST_FEATURES, _MOST_FEATURES = 2, 12
_GRAPHS = 12  # that a second call may ask for, before it is counted
_MODULE = "training_script"
_HEAD = """
import contextlib, copy, heapq, io, itertools, logging, math, pickle, random, statistics
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field, replace
import numpy as np
import {library} as torch
from {library} import nn, optim


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def batch(seed):
    return torch.from_numpy(numbers(seed, 5, 6)), torch.from_numpy(numbers(seed + 100, 5, 2))


"""
_CHILD = """
import sys
sys.path.insert(0, {root!r})
from tools.fuzz import training
print(repr(training.outcomes(training.generate({seed}, {number}), {compiled})))
"""


@frozen
class Script:
    """A script of a seed and number. Parts are drawn, and `features` may be left out."""

    seed: int
    number: int
    model: Piece
    optimizer: Piece
    step: Step
    features: tuple[Piece, ...]

    def script(self) -> str:
        """Its text."""
        return _HEAD.format(library="rushlight") + self.body()

    def body(self) -> str:
        """Its text behind the imports."""
        pieces = (self.model, self.optimizer, *self.features)
        tops = [piece.top.strip("\n") for piece in (*pieces, self.step) if piece.top]
        begins = [self.model.begin, self.optimizer.begin, self.step.begin, *[piece.begin for piece in self.features]]
        turn = ["x, y = batch(turn)", *[piece.before for piece in pieces], self._step()]
        turn += ["value = loss.item()", *[piece.after for piece in pieces]]
        shown = ", ".join(["value", *[text for piece in pieces for text in piece.show]])
        turn.append(f"seen.append(({shown}))")
        ends = [*[piece.end for piece in pieces], "return seen, [p.tolist() for p in model.parameters()]"]
        lines = [
            "torch.manual_seed(0)\nseen = []",
            *begins,
            "for turn in range(turns):\n" + textwrap.indent(_joined(turn), "    "),
            *ends,
        ]
        return "\n\n\n".join([*tops, "def train(turns):\n" + textwrap.indent(_joined(lines), "    ")]) + "\n"

    def _step(self) -> str:
        losses = [piece.loss for piece in self.features if piece.loss]
        forward = _joined([STEP_FORWARD, *losses])
        lines: list[str] = []
        for line in self.step.lines.splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(textwrap.indent(forward, indent) if line.strip() == "{forward}" else line)
        return "\n".join(lines)


def _joined(parts: Sequence[str]) -> str:
    return "\n".join([part.strip("\n") for part in parts if part.strip()])


def generate(seed: int, number: int) -> Script:
    """The script of a seed and number."""
    random = Random(f"training {seed} {number}")
    features = random.sample(FEATURES, random.randint(_FEWEST_FEATURES, _MOST_FEATURES))
    return Script(seed, number, random.choice(MODELS), random.choice(OPTIMIZERS), random.choice(STEPS), tuple(features))


def judge(script: Script, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a script, with as few features as show it."""
    found = wrong(script, skipped)
    if found is None:
        return None
    smallest = script
    for feature in script.features:
        others = tuple([other for other in smallest.features if other is not feature])
        shorter = replace(smallest, features=others)
        if (less := wrong(shorter, Counter())) is not None and less[0] == found[0]:
            smallest, found = shorter, less
    return Finding(found[0], smallest, found[1])


def wrong(script: Script, skipped: Counter[str]) -> tuple[str, str] | None:
    """What kind of fault a script shows, and its details; None if it does what eager code does."""
    expected = outcomes(script, compiled=False)
    if expected[0][0] == "error":
        skipped["raise " + expected[0][1].partition(":")[0]] += 1
    actual = outcomes(script, compiled=True, skipped=skipped)
    for call, (wanted, given) in enumerate(zip(expected, actual, strict=True)):
        if (detail := _difference(given, wanted)) is not None:
            kind = "raises" if given[0] == "error" != wanted[0] else "value"
            return kind, f"call {call}: {detail}"
    if script.number % 16 == 15:
        return _wrong_elsewhere(script, expected)
    return None


def _wrong_elsewhere(script: Script, expected: list[tuple[Any, ...]]) -> tuple[str, str] | None:
    """What differs in processes, of which the second one finds what the first one has compiled."""
    if generate(script.seed, script.number) != script:
        return None  # a shorter one is not drawn
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = _CHILD.format(root=root, seed=script.seed, number=script.number, compiled=True)
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(2):
            made = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code],
                env={**os.environ, "XDG_CACHE_HOME": folder},
                capture_output=True,
                text=True,
                check=False,
            )
            if made.stdout.strip() != repr(expected):
                return "process", f"process {turn}: {made.stdout[:300]} {made.stderr[-300:]}"
    return None


def outcomes(script: Script, compiled: bool, skipped: Counter[str] | None = None) -> list[tuple[Any, ...]]:
    """What calls in a row give: ("result" or "error", what it is, what is printed, plain globals)."""
    module = sys.modules[_MODULE] = ModuleType(_MODULE)  # where classes of the script are looked up
    space = vars(module)
    text = script.script()
    name = f"<training {script.seed} {script.number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), space)  # noqa: S102 - text that is drawn here
    train: Callable[[int], Any] = space["train"]
    if compiled:
        rushlight.compiler.reset()
        options: Mapping[str, Any] = {} if script.number % 4 == 0 else {"backend": "eager"}
        train = rushlight.compile(train, **options)
    found: list[tuple[Any, ...]] = []
    graphs: list[int] = []
    for _ in range(_CALLS):
        found.append(_outcome(train, space))
        graphs.append(rushlight.compiler.graph_count())
    if compiled and skipped is not None:
        more = graphs[-1] - graphs[0]
        skipped["more graphs in a second call"] += more > _GRAPHS
        if more > _GRAPHS:
            skipped[f"graphs {script.seed}/{script.number}: {graphs[0]} and {more}"] += 1
    return found


def _outcome(train: Callable[[int], Any], space: Mapping[str, Any]) -> tuple[Any, ...]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outcome: tuple[Any, ...] = "result", train(TURNS)
        except Exception as error:  # noqa: BLE001 - whatever a script raises
            outcome = "error", f"{type(error).__name__}: {error}".splitlines()[0]
    kept = {name: value for name, value in space.items() if name.isupper()}
    return *outcome, printed.getvalue(), repr(kept)


def _difference(actual: Any, expected: Any, path: str = "") -> str | None:
    """Where two outcomes differ first, as text."""
    if type(actual) is not type(expected):
        return f"{path}: {actual!r} for {expected!r}"
    if isinstance(expected, (list, tuple)):
        for at, (one, other) in enumerate(zip(actual, expected, strict=False)):
            if (detail := _difference(one, other, f"{path}[{at}]")) is not None:
                return detail
        return None if len(actual) == len(expected) else f"{path}: {len(actual)} for {len(expected)} parts"
    return None if repr(actual) == repr(expected) else f"{path}: {actual!r} for {expected!r}"
