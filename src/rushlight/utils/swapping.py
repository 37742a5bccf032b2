"""`swap_tensors`: two tensors exchange all that they are."""

from __future__ import annotations

import weakref

from rushlight.eager.handle import note_move
from rushlight.eager.tensor import Tensor
from rushlight.support.errors import require

__all__ = ["swap_tensors"]

_SLOTS = ("backing", "form", "gradient", "keys", "node", "offset", "version", "view_of")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange memory, layout, class, attributes and place in autograd of two tensors.

    Who holds one of them sees what the other one was. Errors: A001 for other objects, A004 for a tensor that has weak
    references, or whose gradient a backward pass that was recorded is to accumulate.
    """
    for tensor in (t1, t2):
        require(isinstance(tensor, Tensor), "A001", "swap_tensors: a tensor is expected", given=tensor)
        sink = None if tensor.gradient is None else tensor.gradient.sink
        recorded = sink is not None and sink() is not None
        require(not recorded, "A004", "swap_tensors: a recorded backward pass leads to the tensor", tensor=tensor)
        free = not weakref.getweakrefcount(tensor)
        require(free, "A004", "swap_tensors: the tensor has weak references", tensor=tensor)
    one, other = t1, t2
    one.__class__, other.__class__ = other.__class__, one.__class__
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    for name in _SLOTS:
        first, second = getattr(one, name), getattr(other, name)
        setattr(one, name, second)
        setattr(other, name, first)
    note_move()
