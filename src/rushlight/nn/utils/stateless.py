"""The old place of `func.functional_call`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight.nn.modules.module import Module
from rushlight.nn.substitution import functional_call as call_with
from rushlight.support.errors import warn
from rushlight.support.peer_names import absent_name

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, object],
    args: object = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Return what a module computes with other tensors; `func.functional_call` has taken its place."""
    hint = "use torch.func.functional_call"
    warn("A009", "nn.utils.stateless.functional_call is deprecated", key="stateless", hint=hint)
    return call_with(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
