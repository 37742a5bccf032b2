"""Digests of results in float32 and float64, for comparing targets: `python -m matrix_digest FIRST STEP` prints JSON.

Each operator's largest sample is called as it is, in odd sizes and in long ones, in eager; so are its gradients.
"""

import hashlib
import json
import sys
import warnings

import numpy as np

from matrix_calls import call, outputs_of, tensors_of
from matrix_cases import Case, cases, materialise, richest_of
from matrix_gradients import differentiable
from matrix_questions import has_gradient
from rushlight.eager.memory import array_of
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact
from rushlight.support.errors import RushlightError


def digested_cases(op: str) -> list[Case]:
    """float32 cases of the largest sample in contiguous memory."""
    found = [case for case in cases(op) if case.layout == "contiguous" and case.dtype == "float32"]
    found = [case for case in found if case.values == "given" and case.size in ("given", "odd", "long")]
    return [case for case in found if case.sample == richest_of(op)]


def digest(case: Case) -> str:
    """A digest of the results' bits, NaNs made equal, and of gradients where the operator has them."""
    arguments = materialise(case)
    results = outputs_of(call(case.operator, tensors_of(arguments), arguments.attrs))
    if has_gradient(case):
        function = differentiable(case)
        if function.weights:
            results += tuple(item for item in function.gradients(function.results()) if item is not None)
    found = hashlib.sha256()
    for result in results:
        array = np.ascontiguousarray(array_of(result.detach()))
        if array.dtype.kind in "fc":
            array = np.where(np.isnan(array), np.nan, array).astype(array.dtype)
        found.update(repr((array.shape, array.dtype.str)).encode() + array.tobytes())
    return found.hexdigest()


def own_operators() -> list[str]:
    """The names of operators, but those that programs define."""
    return [name for name in OPERATORS if "::" not in name]


def digests(names: list[str]) -> dict[str, str]:
    """A digest per case."""
    found = {}
    for name in names:
        facts = OPERATORS[name].facts
        if name in ("empty", "empty_like") or facts & (Fact.DATA_DEPENDENT | Fact.EFFECT | Fact.CONTROL):
            continue
        for case in digested_cases(name):
            try:
                found[f"{name} {case}"] = digest(case)
            except RushlightError as error:
                found[f"{name} {case}"] = error.code
    return found


if __name__ == "__main__":
    warnings.simplefilter("error")
    first, step = int(sys.argv[1]), int(sys.argv[2])
    json.dump(digests(own_operators()[first::step]), sys.stdout)
