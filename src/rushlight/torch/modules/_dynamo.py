"""`torch._dynamo`, as far as programs steer the compiler by it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ContextDecorator, nullcontext

from rushlight.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    explain,
    graph_break,
    is_compiling,
    list_backends,
    mark_dynamic,
    mark_static,
    nonstrict_trace,
    reset,
    set_stance,
    substitute_in_graph,
)
from rushlight.support import settings
from rushlight.torch.submodule import Submodule

__all__ = [
    "OptimizedModule",
    "_trace_wrapped_higher_order_op",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "eval_frame",
    "exc",
    "explain",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "reset",
    "set_stance",
    "substitute_in_graph",
]


class _Config(Submodule):
    """A submodule whose attributes may be any, and may be patched for a while."""

    @property
    def compiled_autograd(self) -> bool:
        """Whether backward passes are compiled: the setting of that name."""
        return settings.get().compiled_autograd

    @compiled_autograd.setter
    def compiled_autograd(self, value: bool) -> None:
        settings.update(compiled_autograd=bool(value))

    def patch(self, arg: str | Mapping[str, object] | None = None, val: object = None, **values: object) -> ConfigPatch:
        """Return a context manager and decorator that sets attributes: by name and value, by a dict, or by keywords."""
        given = {arg: val} if isinstance(arg, str) else dict(arg or {})
        return ConfigPatch(self, {**given, **values})


class ConfigPatch(ContextDecorator):
    """Attributes that are set inside of a `with`, or while a function runs."""

    def __init__(self, config: _Config, values: Mapping[str, object]) -> None:
        self._config = config
        self._values = values
        self._before: list[tuple[dict[str, object], bool]] = []

    def __enter__(self) -> None:
        self._before.append((dict(vars(self._config)), self._config.compiled_autograd))
        for name, value in self._values.items():
            setattr(self._config, name, value)

    def __exit__(self, *raised: object) -> None:
        variables, compiled = self._before.pop()
        vars(self._config).clear()
        vars(self._config).update(variables)
        self._config.compiled_autograd = compiled


config = _Config(
    "Flags of a compiler that is not used; they may be set, and change nothing, but for `compiled_autograd`.",
    accumulated_cache_size_limit=256,
    assume_static_by_default=True,
    automatic_dynamic_shapes=True,
    cache_size_limit=8,
    capture_dynamic_output_shape_ops=True,
    capture_scalar_outputs=True,
    error_on_recompile=False,
    inline_inbuilt_nn_modules=True,
    optimize_ddp=True,
    recompile_limit=8,
    suppress_errors=False,
    verbose=False,
)


class Unsupported(RuntimeError):
    """An exception to catch: nothing raises it."""


class OptimizedModule:
    """A class for `isinstance`: nothing is an instance."""


def _plain() -> AbstractContextManager[None]:
    """Change nothing: elements of tensors are taken by index, and mapped, as they are written."""
    return nullcontext()


def mark_static_address(value: object, guard: bool = True) -> None:
    """Do nothing: where a tensor lies is no part of compiled code."""


def maybe_mark_dynamic(value: object, index: object) -> None:
    """Do nothing: sizes are symbols where a program allows it."""


exc = Submodule("Exceptions of a compiler that is not used.", Unsupported=Unsupported)
eval_frame = Submodule("What a module becomes that is compiled.", OptimizedModule=OptimizedModule)
_trace_wrapped_higher_order_op = Submodule("Contexts of a compiler that is not used.", TransformGetItemToIndex=_plain)
