"""What may differ from PyTorch: rules with reasons, as predicates on a difference and never on seeds.

Each rule has a row of the same name in docs/deviations.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rushlight.support.frozen import frozen
from tools.fuzz.program import Program
from tools.fuzz.running import Outcome


@frozen(eq=False)
class Difference:
    """A program, the outcome here, PyTorch's, and what differs in words."""

    program: Program
    actual: Outcome
    expected: Outcome
    detail: str


@frozen(eq=False)
class Rule:
    """A deviation: the name of its row in docs/deviations.md, and whether it explains a difference."""

    name: str
    applies: Callable[[Difference], bool]


def explained(difference: Difference, rules: Sequence[Rule]) -> str | None:
    """The name of the first rule that explains a difference."""
    return next((rule.name for rule in rules if rule.applies(difference)), None)


def _refused_complex(difference: Difference) -> bool:
    return difference.actual.code == "D006" and "complex" in difference.actual.message


def _copied_parts(difference: Difference) -> bool:
    parts = re.search(r"\.(real|imag|conj)\b", difference.program.statements[0])
    return parts is not None and difference.detail.startswith("shared memory")


def _refused_overlap(difference: Difference) -> bool:
    return difference.actual.code == "S013" and difference.expected.error is None


OPERATOR_RULES: tuple[Rule, ...] = (
    Rule("complex operators", _refused_complex),
    Rule("`real` and `imag`", _copied_parts),
    Rule("writes to overlapping elements", _refused_overlap),
)
"""What eager operators may do otherwise."""
