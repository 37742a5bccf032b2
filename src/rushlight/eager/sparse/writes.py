"""What is written in place where a sparse tensor is the target, or is added to a dense one: accumulated gradients.

A sparse target keeps its identity and takes the places and values of the result. Other writes are refused (A006).
"""

from __future__ import annotations

from rushlight.eager.autograd.write import check_write
from rushlight.eager.creation import zeros
from rushlight.eager.dispatch import STATE, Key, register
from rushlight.eager.handle import Handle
from rushlight.eager.mutation import COPY, FILL, can_cast, in_place
from rushlight.eager.sparse.tensor import SparseTensor, sparse
from rushlight.eager.tensor import Tensor
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail, require


def _target(name: str, target: Tensor) -> SparseTensor:
    """The target, if it is sparse and may be written to."""
    if not isinstance(target, SparseTensor):
        fail("A006", f"{name}: a sparse tensor is written to a dense one by add_, sub_ and copy_", input=target)
    if STATE.grad:
        check_write(name, target.kept)
    return target


def _store(name: str, target: SparseTensor, value: object) -> SparseTensor:
    """Gives the target the places and values of a result."""
    if not isinstance(value, SparseTensor):
        fail("A006", f"{name}: the result is dense, and its target sparse", target=target, result=value)
    fits = tuple(value.shape) == tuple(target.shape)
    require(fits, "S009", f"{name}: the result does not fit its target", target=target, result=value)
    if not can_cast(value.dtype, target.dtype):
        fail("D003", f"{name}: {value.dtype.name} cannot be stored in {target.dtype.name}", target=target)
    kept = value.kept.to(target.dtype)
    target.places, target.kept, target.merged, target.pointers = value.places, kept, value.merged, value.pointers
    target.version.value += 1
    return target


def _in_place(name: str) -> None:
    """Lets an operator's in-place form store what the operator gives."""
    op = OPERATORS[name]

    def write(input: Tensor, *rest: object, **attrs: object) -> Tensor:
        return _store(f"{name}_", _target(f"{name}_", input), op(input, *rest, **attrs))

    register(in_place(op), Key.SPARSE, write, reenters=True)


for _name in ("mul", "div", "neg", "abs", "sqrt", "square", "relu", "sign", "to_dtype"):
    _in_place(_name)


def _add(name: str, sign: int) -> None:
    """Lets a sum's in-place form add a sparse tensor to a sparse one, or to a dense one at its places."""
    op = OPERATORS[name]

    def write(input: Tensor, other: Tensor, alpha: float | Tensor | None = None) -> Tensor:
        if isinstance(input, SparseTensor):
            return _store(f"{name}_", _target(f"{name}_", input), op(input, other, alpha=alpha))
        if not isinstance(other, SparseTensor):
            fail("A006", f"{name}_: alpha is a number", alpha=alpha)
        same = tuple(input.shape) == tuple(other.shape)
        require(same, "S014", f"{name}_: a sparse tensor needs another one of its shape", input=input, other=other)
        factor = sign if alpha is None else alpha * sign
        values = other.kept if factor == 1 else other.kept * factor
        return _scattered(name, input, other, values)

    register(in_place(op), Key.SPARSE, write, reenters=True)


def _scattered(name: str, target: Tensor, at: SparseTensor, values: Tensor) -> Tensor:
    """Adds values to a dense tensor at the places of a sparse one."""
    if not can_cast(values.dtype, target.dtype):
        fail("D003", f"{name}_: {values.dtype.name} cannot be stored in {target.dtype.name}", target=target)
    if at.sparse_dim() == 1:
        return target.index_add_(0, at.places[0], values.to(target.dtype))
    return target.index_put_(tuple(at.places), values.to(target.dtype), accumulate=True)


_add("add", 1)
_add("sub", -1)


def _copy(target: Tensor, source: Tensor) -> Tensor:
    if isinstance(target, SparseTensor):
        return _store("copy_", _target("copy_", target), source.clone().to(target.dtype))
    return target.copy_(source.to_dense())


def _fill(target: Tensor, value: object) -> Tensor:
    into = _target("fill_", target)
    zero = not isinstance(value, Handle) and value == 0
    require(zero, "A006", "fill_: a sparse tensor is filled with 0 alone", target=target, value=value)
    kept = zeros(0, *into.kept.shape[1:], dtype=into.dtype)
    return _store(
        "zero_", into, sparse(into.places[:, :0], kept, into.shape, merged=True).to_sparse(layout=into.layout)
    )


register(COPY, Key.SPARSE, _copy, reenters=True)
register(FILL, Key.SPARSE, _fill, reenters=True)
