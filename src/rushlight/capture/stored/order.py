"""The gradients of a function that another process has traced: graphs that it kept, or the function traced again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rushlight.capture.gradients.orders import Keep, Order, Request, Variant, as_hints
from rushlight.capture.gradients.reopened import TRACING
from rushlight.eager.arguments import default_dtype, defaulting
from rushlight.eager.dispatch import STATE
from rushlight.support import events
from rushlight.sym import Scope, Size, SizeExpr


class StoredOrder:
    """What stands for an `Order` where a function was not traced in this process.

    `find` gives the graphs that are kept for a request, and `keep` keeps one. `trace` gives the order of the function
    as it is traced now, and its scope; its errors are G015.
    """

    def __init__(self, scope: Scope) -> None:
        self.find: Callable[[Request, Scope], list[Variant]] | None = None
        self.keep: Keep | None = None
        self.trace: Callable[[], tuple[Order, Scope]] | None = None
        self._scope = scope
        self._default = default_dtype()  # under which an entry is found
        self._variants: dict[Request, list[Variant]] = {}
        self._traced: tuple[Order, Scope] | None = None

    def sizes(self, sizes: Mapping[SizeExpr, Size]) -> Mapping[SizeExpr, Size]:
        """The sizes of a call, by the symbols of the graphs: those of the trace of this process, if there is one."""
        if self._traced is None:
            return sizes
        symbols = self._traced[1].symbols
        return {symbols[symbol.facts.name]: size for symbol, size in sizes.items()}

    def variant(self, request: Request, sizes: Mapping[SizeExpr, Size]) -> Variant:
        """The graph for a request, in a call with these sizes. What is recorded, or part of a trace, is traced here."""
        with TRACING:
            found = self._kept(request, sizes) if self._traced is None else None
            if found is not None:
                return found
            order = self._order()
        return order.variant(request, self.sizes(sizes))

    def _kept(self, request: Request, sizes: Mapping[SizeExpr, Size]) -> Variant | None:
        if STATE.tracer is not None or request.recorded is not None:
            return None
        assert self.find is not None, "who has read the entry says where graphs are"
        values, known = as_hints(sizes), request in self._variants
        if not known:
            self._variants[request] = self.find(request, self._scope)
        found = next((one for one in self._variants[request] if one.extension.holds(values)), None)
        if not known:
            events.record("cache_miss" if found is None else "cache_hit", "captured", "a backward pass")
        return found

    def _order(self) -> Order:
        if self._traced is None:
            assert self.trace is not None, "who has read the entry says how it is traced"
            with defaulting(self._default):
                self._traced = self.trace()
            if self.keep is not None:
                self._traced[0].keep_in(self.keep)
            self._variants.clear()
        return self._traced[0]
