"""All cases by name."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.bench.cases_eager import OPERATORS
from rushlight.bench.cases_layers import LAYERS
from rushlight.bench.cases_models import LENGTHS, MODELS
from rushlight.bench.cases_ops import OPS
from rushlight.bench.cases_tracing import TRACING
from rushlight.bench.overhead.cases import OVERHEAD
from rushlight.bench.records import Case

CASES: dict[str, Case] = {
    case.name: case for case in (*OPS, *OPERATORS, *LAYERS, *MODELS, *OVERHEAD, *LENGTHS, *TRACING)
}


def family(name: str) -> Sequence[Case]:
    """The cases of a family, in their order."""
    return [case for case in CASES.values() if case.family == name]
