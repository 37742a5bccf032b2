"""The backends that `rl.compile` knows by name. Functions are those of `torch._dynamo.backends.registry`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rushlight import build
from rushlight.capture.backends import NAMED, Backend, backend_named
from rushlight.eager.boundary import checked
from rushlight.support.errors import fail, require
from rushlight.support.names import did_you_mean

__all__ = ["list_backends", "lookup_backend", "register_backend"]

_tags: dict[str, tuple[str, ...]] = {}


def list_backends(exclude_tags: Sequence[str] = ("debug", "experimental")) -> list[str]:
    """The names that `rl.compile` takes as `backend`, in order; a callable is one too."""
    registered = [name for name in NAMED if not set(exclude_tags or ()) & set(_tags.get(name, ()))]
    return sorted([*build.BACKENDS, *registered])


@checked
def register_backend(compiler_fn: Backend | None = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Give a backend a name, by default its own; also a decorator. Errors: C001 where it is taken."""
    if compiler_fn is None:
        return partial(register_backend, name=name, tags=tags)
    chosen = name or str(getattr(compiler_fn, "__name__", ""))
    require(chosen, "A002", "register_backend: the backend has no name", backend=compiler_fn)
    if chosen in build.BACKENDS or chosen in NAMED:
        fail("C001", "register_backend: there is a backend of this name", name=chosen)
    NAMED[chosen] = compiler_fn
    _tags[chosen] = tuple(tags)
    return compiler_fn


@checked
def lookup_backend(compiler_fn: str | Backend) -> Backend:
    """Return the backend of a name; a callable is one. Of a name of Rushlight's own it is a function of a graph."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    if compiler_fn in build.BACKENDS:
        return _operator_by_operator
    found = backend_named(compiler_fn)
    if found is None:
        hint = did_you_mean(compiler_fn, list_backends(()))
        fail("C001", "lookup_backend: there is no such backend", backend=compiler_fn, hint=hint)
    return found


def _operator_by_operator(module: Callable[..., object], inputs: object) -> Callable[..., object]:
    """A graph as it is: its operators are kernels, which what compiles graphs whole would fuse."""
    return module
