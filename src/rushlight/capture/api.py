"""`compile`: the call by which users compile functions and modules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from rushlight import build
from rushlight.capture import aot
from rushlight.capture.backends import Backend, backend_named
from rushlight.capture.entry.entry import Entry
from rushlight.capture.function import (
    CompiledFunction,
    ResumingFunction,
    SpecifiedFunction,
    WholeFunction,
    is_whole,
)
from rushlight.capture.options import Options
from rushlight.capture.resume.breaks import APART
from rushlight.capture.state.reachable import MARK
from rushlight.capture.steering import run_as_it_is, suspends
from rushlight.support import settings
from rushlight.support.errors import fail, require

if TYPE_CHECKING:
    from rushlight.ir.spec.specification import ParamsSpec

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
SEARCHING = ("max-autotune", "max-autotune-no-cudagraphs")


class CompiledModule:
    """A module whose call runs compiled traces; everything else is the module's.

    `isinstance` sees the module's class, so it can be a part of other modules, which then have its parameters.
    """

    _compiled: CompiledFunction
    _options: Mapping[str, object]
    _orig_mod: object

    def __init__(self, module: object, compiled: CompiledFunction, options: Mapping[str, object]) -> None:
        object.__setattr__(self, "_orig_mod", module)
        object.__setattr__(self, "_compiled", compiled)
        object.__setattr__(self, "_options", options)

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return _compile_again, (self._orig_mod, dict(self._options))

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride] - a proxy's
        return type(self._orig_mod)

    @property
    def __rushlight_traced__(self) -> object:
        """What a trace calls in its place."""
        return self._orig_mod

    @property
    def __rushlight_promise__(self) -> str:
        """What callers are promised of its graphs."""
        return self._compiled.__rushlight_promise__

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the compiled module."""
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._orig_mod, name)
        if isinstance(value, MethodType) and value.__self__ is self._orig_mod and _is_of_every_module(value, name):
            return self._returning_itself(value)
        return value

    def _returning_itself(self, method: MethodType) -> object:
        """A method that gives the compiled module where it gives the module, as `to` and `eval` do."""

        @functools.wraps(method)
        def call(*args: object, **kwargs: object) -> object:
            result = method(*args, **kwargs)
            return self if result is self._orig_mod else result

        return call

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._orig_mod, name, value)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._orig_mod)})

    def __repr__(self) -> str:
        return f"CompiledModule({self._orig_mod!r})"


def _compile_again(module: object, options: dict[str, Any]) -> Any:
    """A copy of a compiled module: what it has compiled is not copied."""
    return compile(module, **options)


def _is_of_every_module(method: MethodType, name: str) -> bool:
    """Whether a method is one that all modules have."""
    base = next((cls for cls in type(method.__self__).__mro__ if MARK in vars(cls)), None)
    return base is not None and hasattr(base, name)


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: dict[str, object] | None = None,
    disable: bool = False,
    freeze: bool = False,
    specs: aot.Given | None = None,
    domain: str | ParamsSpec | None = None,
) -> Any:
    """Compiles a function or module when it is first called; also a decorator, as `torch.compile`.

    One trace serves all sizes: input sizes are symbols unless `dynamic=False`. What no graph can hold (a branch on a
    value, `print`, `float(tensor)`) runs in Python, between graphs; an event of kind "graph_break" says why each graph
    ends. With `fullgraph=True` all of a call is one graph, and what that cannot hold is an error. Such a call has
    happened, or has not: where it fails nothing has changed. Of a class the calls of its objects are compiled, or else
    how they are made; any other callable serves as a function does.

    What runs a graph is `backend`, by default the setting of that name: "rushlight" (or "inductor"), "eager" (kernels
    call by call, nothing is recomputed for the backward pass), "aot_eager" (kernels call by call, after the partition),
    or "reference" (numpy). The results of the first three are the same to the last bit. A callable is given each graph
    when it first runs (a `rl.fx.GraphModule`, which can be walked, edited, printed and called) and a list of example
    inputs, and gives a function of such inputs to the tuple of the graph's results. Gradients and writes are made of
    these results; backward passes run operator by operator, unless the backend compiles them (`aot_autograd`).

    `mode="max-autotune"` searches the tiles of matrix products that are fastest here, for the sizes of the first call:
    some seconds for each product that is new to the machine, which `rushlight tune` shows. What is found is kept as
    text beside the cache. The other modes of PyTorch, "default" and "reduce-overhead", are the same here.

    `freeze=True` is for inference: tensors that the model reaches by itself, such as its parameters, are constants.
    What is made of them alone is made at the first call, and kept: weights in the order in which products read them
    (which takes their memory once more), or the factors of a normalization. Results are the same to the last bit.
    After a write to such a tensor all of it is made again at the next call; writes through a numpy array that shares
    its memory, or through another tensor that was assigned to its `data`, are not noticed: `rushlight.compiler.reset`
    forgets what is kept. No gradients flow to these tensors, and the function may not write to them (C016), as batch
    norm does while training.

    `options={"activation_memory_budget": 0.5}` keeps half of the bytes between the fewest and all for backward passes.

    `specs` are specifications of the arguments (`rushlight.shapes`), as text or objects: each compiles, when a call
    first fits it, to an artifact that nothing else is ever asked of, and a call runs the first that it fits. A call
    that fits none is an error (C022). With a `domain`, another specification, it is proved here that every call in the
    domain fits one, or sizes are named that do not (C021).
    """
    again = partial(
        compile,
        fullgraph=fullgraph,
        dynamic=dynamic,
        backend=backend,
        mode=mode,
        options=options,
        disable=disable,
        freeze=freeze,
        specs=specs,
        domain=domain,
    )
    if model is None:
        return again
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(again(model.__func__))
    require(callable(model), "A002", "compile: a function, a module or a class is expected", given=type(model).__name__)
    if isinstance(model, type) and _compile_methods(model, again):
        return model
    backend = chosen_backend(backend)
    if mode not in (None, *MODES):
        fail("C001", "compile: there is no such mode", mode=mode, hint=f"one of {', '.join(MODES)}")
    if disable or hasattr(model, APART):
        return model
    chosen = Options(dynamic is not False, backend, mode in SEARCHING, freeze, _budget_of(options))
    if suspends(model):
        return run_as_it_is(model, fullgraph)
    parsed = aot.specifications(specs, domain)
    if parsed:
        compiled: CompiledFunction = SpecifiedFunction(model, chosen, parsed)
    else:
        compiled = (WholeFunction if fullgraph or is_whole(model) else ResumingFunction)(model, chosen)
    return CompiledModule(model, compiled, again.keywords) if hasattr(type(model), "forward") else compiled


def _compile_methods(cls: type, again: Callable[[object], object]) -> bool:
    """Compiles how objects of a class are called, or else made. False for classes of C."""
    names = ("__call__", "forward") if any(name in vars(cls) for name in ("__call__", "forward")) else ("__init__",)
    methods = {name: method for name in names if type(method := vars(cls).get(name)) is FunctionType}
    for name, method in methods.items():
        setattr(cls, name, again(method))
    return bool(methods)


def chosen_backend(backend: str | Backend | None) -> str | Backend | None:
    """A backend by name or as it is; of one that a program has registered, the callable. Errors: C001."""
    if isinstance(backend, str) and backend not in build.BACKENDS:
        backend = backend_named(backend) or backend
    if not (backend is None or callable(backend) or backend in build.BACKENDS):
        hint = f"one of {', '.join(build.BACKENDS)}, or a callable of a graph and example inputs"
        fail("C001", "compile: there is no such backend", backend=backend, hint=hint)
    return backend


def _budget_of(options: dict[str, object] | None) -> float | None:
    """The budget for activations among the options of a backend; others are of none here."""
    given = (options or {}).get(settings.Settings.activation_memory_budget.name)
    return None if given is None else settings.Settings.activation_memory_budget.read(given)


def explain_entries(function: CompiledFunction | CompiledModule) -> tuple[Entry, ...]:
    """The traces behind a compiled function or module, the most recent first."""
    compiled = function._compiled if isinstance(function, CompiledModule) else function
    return compiled.traces()
