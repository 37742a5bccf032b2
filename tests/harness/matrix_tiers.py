"""Which cells are asked by default: all that are cheap, and of those that compile a choice that takes turns.

Every operator keeps every question, its samples, sizes and layouts in its own dtype; the other dtypes come by turns, so
that each is asked of every sixth operator. `pytest --full` asks all.
"""

import zlib

from matrix_cases import richest_of
from matrix_questions import base_of, cells
from rushlight.ir.dtype import BY_NAME, DTYPES
from rushlight.ops.record import Fact

TURNS = 6
CHEAP = ("meta", "symbolic", "refusal", "zeros", "no_gradient")

# Questions beyond what `eager` and `compiled` ask of optimised code. By default LLVM works little at their code, which
# halves their time and changes no bit.
QUICK = ("fused", "frozen", "vjp", "vjp_twice", "vjp_compiled", "variants")

CORE = ("meta", "symbolic", "eager", "compiled", "vjp", "no_gradient")


def is_plain(case) -> bool:
    """Whether a case is the operator's first sample as it is."""
    plain = (case.layout, case.size, case.values) == ("contiguous", "given", "given")
    return plain and case.sample == 0 and case.dtype == base_of(case)


def is_core(question: str, case) -> bool:
    """Whether a cell belongs to the quick tier: the operator's first sample as it is, and not every question."""
    return question in CORE and is_plain(case)


def default_cells(op: str, question: str) -> tuple:
    """The cells that are asked without `--full`; at least one of each layout and size."""
    every = cells(op, question)
    chosen = {case for case in every if _is_chosen(question, case)}
    for part in ("layout", "size"):
        seen = {getattr(case, part) for case in chosen}
        for case in every:
            if getattr(case, part) not in seen:
                seen.add(getattr(case, part))
                chosen.add(case)
    return tuple(case for case in every if case in chosen)


def _is_chosen(question, case):
    if question in CHEAP or is_core(question, case):
        return True
    if case.dtype != base_of(case):
        return (zlib.crc32(case.op.encode()) + DTYPES.index(BY_NAME[case.dtype])) % TURNS == 0
    if question == "fused":
        return case.sample == richest_of(case.op) and case.size == "given"
    if question == "compiled" and case.size == "odd":
        return case.sample in (0, richest_of(case.op))
    if question == "vjp":
        return case.sample in (0, richest_of(case.op)) or Fact.POINTWISE not in case.operator.facts
    if question == "vjp_twice":
        return case.layout == "contiguous" and case.sample == richest_of(case.op)
    if question == "variants":
        return case.sample == richest_of(case.op)
    if question == "vjp_compiled":
        return case.layout == "transposed"
    return True
