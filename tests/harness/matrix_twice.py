"""Gradients of gradients of compiled calls: those of eager code, bit for bit."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from matrix_calls import built, call_without, compiled_call, key_of, kind_of, outputs_of, same_tensors, structure_of
from matrix_cases import ASKED, Case, richest_of
from matrix_exemptions import exemption_for
from matrix_gradients import Differentiable, differentiable, with_gradients
from matrix_questions import cells
from rushlight.autograd import grad
from rushlight.eager.creation import from_numpy
from rushlight.ir.dtype import float32

TURNS = 8


def second_cases(full: bool = True) -> list[Case]:
    """The richest sample of each operator that has second derivatives, or of one operator in eight."""
    found = [case for op in ASKED if full or _is_quick(op) for case in cells(op, "vjp_twice")]
    rich = [case for case in found if case.layout == "contiguous" and case.sample == richest_of(case.op)]
    return [case for case in rich if exemption_for("vjp_twice", case) is None]


def _is_quick(op: str) -> bool:
    """Whether an operator is asked by default: one in so many."""
    return zlib.crc32(op.encode()) % TURNS == 0


def ask_twice_compiled(case: Case) -> str | None:
    """Gradients, and those of a weighted sum of them, of the compiled call against eager's."""
    function = differentiable(case, float32)
    for weight in function.weights:
        weight.requires_grad = True
    remaining = iter(function.leaves)
    structure = structure_of(built(function.arguments.operands, lambda leaf: next(remaining)))
    parts = (function.op, structure, key_of(function.arguments.attrs))
    wanted = _both_orders(function, call_without(*parts))
    found = _both_orders(function, compiled_call(*parts, kind_of(case)))
    for order, (one, other) in enumerate(zip(found, wanted, strict=True), 1):
        text = same_tensors(one, other)
        if text is not None:
            return f"order {order}: {text}"
    return None


def _both_orders(function: Differentiable, run: Any) -> tuple[list[Any], list[Any]]:
    results = with_gradients(outputs_of(run(*function.leaves)))
    first = function.gradients(results, create_graph=True)
    rng = np.random.default_rng(13)
    seeds = [None if one is None else from_numpy(rng.standard_normal(tuple(one.shape), np.float32)) for one in first]
    pairs = [(one, seed) for one, seed in zip(first, seeds, strict=True) if one is not None and one.requires_grad]
    variables = [leaf for leaf in (*function.leaves, *function.weights) if leaf.requires_grad]
    if not pairs:
        return first, [None] * len(variables)
    outs, weights = zip(*pairs, strict=True)
    return first, list(grad(outs, variables, weights, allow_unused=True))
