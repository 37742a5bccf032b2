"""Fuzzer of operators: eager programs against PyTorch in the same process."""

from __future__ import annotations

import importlib
from collections import Counter
from random import Random
from typing import Any

import numpy as np

import rushlight
from tools.fuzz.comparing import difference
from tools.fuzz.finding import Finding
from tools.fuzz.program import Array, Program, dense_input
from tools.fuzz.reducing import reduced
from tools.fuzz.running import run

_UNARY = ("neg", "abs", "square")
_BINARY = ("add", "sub", "mul", "maximum")


def generate(seed: int, number: int) -> Program:
    """A program of a seed and number."""
    random = Random(f"operators {seed} {number}")
    shape = tuple([random.choice((0, 1, 2, 3, 5)) for _ in range(random.randrange(4))])
    inputs = tuple([dense_input(_values(random, shape), "float32") for _ in range(2)])
    statements: list[str] = []
    for index in range(2, random.randrange(3, 14)):
        names = [f"v{random.randrange(index)}" for _ in range(2)]
        call = f"{random.choice(_BINARY)}({names[0]}, {names[1]})"
        if random.random() < 0.3:
            call = f"{random.choice(_UNARY)}({names[0]})"
        statements.append(f"v{index} = torch.{call}")
    return Program(
        seed, number, inputs, tuple(statements), tuple([f"v{index + 2}" for index in range(len(statements))])
    )


def judge(program: Program, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a program, reduced."""
    detail = _difference(program)
    if detail is None:
        return None
    smallest = reduced(program, lambda other: _difference(other) is not None)
    return Finding("value", smallest, _difference(smallest) or detail)


def _difference(program: Program) -> str | None:
    return difference(run(program, rushlight), run(program, _peer()))


def _peer() -> Any:
    return importlib.import_module("torch")


def _values(random: Random, shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape))
    return np.array([random.randrange(-4, 5) for _ in range(count)], np.float32).reshape(shape)
