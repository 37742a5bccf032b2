"""A trace that is taken up again, for gradients that were not traced with the function."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rushlight.eager.arguments import default_dtype, defaulting
from rushlight.eager.handle import Handle
from rushlight.eager.tracing import Tracer
from rushlight.ir.dtype import DType
from rushlight.ir.graph import Call
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Branch, Condition, RuntimeAssert, SizeExpr, free_symbols

T = TypeVar("T")

TRACING = threading.RLock()
"""Held while a function is traced: a trace puts placeholders on tensors and objects that other functions may share."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=TRACING.acquire, after_in_parent=TRACING.release, after_in_child=TRACING.release)


@frozen(eq=False)
class Extension:
    """What a trace has after more was recorded in it: calls that follow its own, and what holds where these run.

    `conditions` on sizes were assumed by the last addition. The trace as it was closed has no branch. `default` is the
    default dtype under which the function was traced.
    """

    branch: Branch | None
    calls: Sequence[Call]
    bindings: Sequence[tuple[Handle, Any, int]]
    memos: Mapping[Hashable, object]
    conditions: Sequence[Condition] = ()
    default: DType | None = None

    def holds(self, values: Mapping[SizeExpr, int]) -> bool:
        """Whether the conditions hold for sizes. Errors: G015 where the sizes of a call do not tell."""
        return _broken(self.conditions, values) is None

    @property
    def asserts(self) -> list[RuntimeAssert]:
        """What is checked before its calls run."""
        return [] if self.branch is None else self.branch.asserts

    @contextmanager
    def known(self) -> Generator[None]:
        """While inside, what holds for its calls is known, and the default dtype is the trace's."""
        with defaulting(self.default):
            if self.branch is None:
                yield
            else:
                with self.branch.scope.within(self.branch):
                    yield


class ReopenedTrace:
    """A closed trace in which more can be recorded, under the lock `TRACING`."""

    def __init__(self, tracer: Tracer) -> None:
        """To be called before the trace is closed."""
        self.tracer = tracer
        self.whole = Extension(None, (), tracer.bindings(), tracer.memos, (), default_dtype())
        tracer.seal()

    def record(self, base: Extension, values: Mapping[SizeExpr, int], work: Callable[[], T]) -> tuple[T, Extension]:
        """Records `work` after an extension, for a call with these sizes.

        Questions about sizes have the answers of the example, unless they are others for this call.
        """
        facts: list[Condition] = []
        while True:
            result, extension = self._recorded(base, facts, work)
            broken = _broken(extension.conditions, values)
            if broken is None:
                return result, extension
            facts.append(broken.negate())

    def _recorded(self, base: Extension, facts: Sequence[Condition], work: Callable[[], T]) -> tuple[T, Extension]:
        tracer, builder, scope = self.tracer, self.tracer.builder, self.tracer.scope
        with base.known():
            branch = Branch(scope)
        first, memos = len(builder.calls), tracer.memos
        builder.calls.extend(base.calls)
        tracer.memos, tracer.derives = dict(base.memos), True
        tracer.reopen(base.bindings)
        try:
            with defaulting(base.default), scope.within(branch), tracer.active(), builder.types_apart():
                for fact in facts:
                    scope.learn(fact)
                guards = len(scope.guards)
                try:
                    result = work()
                finally:
                    asked = [guard.condition for guard in scope.guards[guards:]]
                    del scope.guards[guards:]  # they hold for what is recorded here alone
                calls, bindings = builder.calls[first:], tracer.bindings()
            return result, Extension(branch, calls, bindings, tracer.memos, (*facts, *asked), base.default)
        finally:
            tracer.close()
            tracer.memos = memos
            del builder.calls[first:]


def _broken(conditions: Iterable[Condition], values: Mapping[SizeExpr, int]) -> Condition | None:
    """The first condition that does not hold for sizes."""
    for condition in conditions:
        if not values.keys() >= set(free_symbols(condition.expr)):
            fail("G015", "backward: a derivative depends on sizes that the call does not tell", asked=str(condition))
        if not condition.holds(values):
            return condition
    return None
