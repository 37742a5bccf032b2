"""Fuzzer of native eager calls: programs of views and in-place writes, and of all operators, against Python's calls.

A program runs by Python's calls, and then natively until all of its calls were learned. Results, gradients, storages
and errors have the same bits, and tensors the same versions, offsets and histories.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.eager import python_calls
from rushlight.eager.native.learning import native_calls
from tools.fuzz import compiled, views
from tools.fuzz.comparing import difference, same_bits
from tools.fuzz.finding import Finding
from tools.fuzz.program import Program
from tools.fuzz.reducing import reduced
from tools.fuzz.running import Outcome, run

NATIVE_RUNS = 4
"""A call with attributes is learned when it is made again, and what it consists of after that."""


def generate(seed: int, number: int) -> Program:
    """A program of a seed and number: by turns of views and writes, and of operators."""
    return (views if number % 2 else compiled).generate(seed, number)


def judge(program: Program, skipped: Counter[str]) -> Finding | None:
    """What is wrong with a program, reduced."""
    if not program.inputs:  # the fuzzer of compiled functions names arguments of its own there
        skipped["programs without inputs"] += 1
        return None
    if _difference(program) is None:
        return None
    smallest = reduced(program, lambda other: _difference(other) is not None)
    return Finding("native", smallest, _difference(smallest) or "")


def _difference(program: Program) -> str | None:
    with python_calls():
        expected = _outcome(program)
    for _ in range(NATIVE_RUNS):
        with native_calls():
            actual = _outcome(program)
        detail = difference(actual, expected, same_bits)
        if detail is not None or (actual.code, actual.message) != (expected.code, expected.message):
            return detail or f"{actual.message} for {expected.message}"
    return None


def _outcome(program: Program) -> Outcome:
    rushlight.manual_seed(0)
    return run(program, rushlight, _with_facts)


def _with_facts(function: Callable[..., Any]) -> Callable[..., Any]:
    """A program that also gives what tensors have beside their elements."""

    def program(*inputs: Any) -> tuple[Any, ...]:
        results = function(*inputs)
        return (*results, *[_facts(one) for one in (*inputs, *results) if isinstance(one, rushlight.Tensor)])

    return program


def _facts(tensor: Any) -> list[int]:
    history = 0 if tensor.grad_fn is None else zlib.crc32(tensor.grad_fn.name().encode())
    places = [tensor._version, tensor.storage_offset(), tensor.output_nr]
    return [*places, tensor.view_of is not None, tensor.is_leaf, tensor.requires_grad, history]
