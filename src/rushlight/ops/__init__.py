"""Every operator with every rule, and nothing else.

Modules that nothing imports at the start are loaded when a rule of one of their operators is first asked for.
"""

from rushlight.ops.deferred import FAMILIES
from rushlight.ops.record import OPERATORS, Fact, Operator, Sample, defer, define

__all__ = ["OPERATORS", "Fact", "Operator", "Sample", "define"]

defer(FAMILIES)
