"""Dual numbers: tensors with tangents, whose functions have tangents too.

A level keeps its duals and their tangents; what they become is on the tape. The tangent of a result is its derivative
in their direction, by reverse mode twice, as in `func.jvp`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rushlight.eager.autograd.history import requires
from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import STATE, Scope, refuse_in_graphs
from rushlight.eager.tensor import Tensor
from rushlight.func.recording import StandIns
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A tensor, and its tangent, or None if it depends on no dual."""

    primal: Tensor
    tangent: Tensor | None


class _Level(StandIns):
    """The duals of a level, and their tangents."""

    def __init__(self) -> None:
        super().__init__("forward_ad")
        self.tangents: list[Any] = []
        self.tracer = STATE.tracer

    def entered(self, name: str) -> _Level:
        """The level itself. A graph that begins within it has stand-ins for its duals, which have no tangents: C039."""
        if self.tracer is not STATE.tracer:
            refuse_in_graphs(name, "the level of duals was entered before the graph")
        return self


def enter_dual_level() -> int:
    """Begin a level, and return its number, which is 0: there are no levels within each other (A004)."""
    require(STATE.duals is None, "A004", "Nested forward mode AD is not supported at the moment")
    _require_recording()
    STATE.duals = _Level()
    STATE.forward = "forward_ad"
    return 0


def _require_recording() -> None:
    require(STATE.grad, "A004", "forward_ad: nothing is recorded here", hint="leave no_grad first")


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level; its duals become tensors without tangents."""
    entered = STATE.duals is not None and level in (None, 0)
    require(entered, "A004", "forward_ad: a level is ended that was not entered", level=level)
    STATE.duals = STATE.forward = None


@contextmanager
def dual_level() -> Generator[int]:
    """Let duals be made in this region.

    ```python
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        primal, tangent = forward_ad.unpack_dual(f(dual))
    ```
    """
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level(level=level)


@checked
def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a tensor with the elements of another one and with a tangent of its shape and dtype.

    Errors: A004 outside of a level, D001 for dtypes without derivatives, A002 where the tangent does not fit.
    """
    current: _Level | None = STATE.duals
    if current is None:
        fail(
            "A004", "Trying to create a dual Tensor for forward AD but no level exists", hint="enter dual_level() first"
        )
    current = current.entered("make_dual")
    _require_recording()
    for value in (tensor, tangent):
        require(isinstance(value, Tensor), "A001", "make_dual: a tensor is expected", value=value)
    fits = tuple(tensor.shape) == tuple(tangent.shape) and tensor.dtype is tangent.dtype
    require(
        fits, "A002", "make_dual: the tangent has the shape and dtype of its tensor", tensor=tensor, tangent=tangent
    )
    dual = current.stand_in(tensor)
    current.tangents.append(tangent)
    return dual


@checked
def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a tensor without tangent, and its tangent, which is None where it depends on no dual."""
    require(isinstance(tensor, Tensor), "A001", "unpack_dual: a tensor is expected", tensor=tensor)
    current: _Level | None = STATE.duals
    if current is None or not requires(tensor):
        return UnpackedDualTensor(tensor, None)
    current = current.entered("unpack_dual")
    with Scope(grad=True):
        tangent = current.pushed(tensor, current.tangents)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = current.released([tensor, tangent])
    return UnpackedDualTensor(primal, tangent)


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
