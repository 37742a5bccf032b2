"""What operators do with sparse tensors: a kernel for each at `Key.SPARSE`, made of operators on places and values.

The key is above autograd, so that derivatives are those of the operators on values. An operator without a kernel is
refused with A006.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight.eager import functions as ops
from rushlight.eager.creation import zeros
from rushlight.eager.dispatch import Key, call_below, register, register_fallback
from rushlight.eager.execution.operands import flatten
from rushlight.eager.handle import Handle
from rushlight.eager.sparse.product import join, multiply
from rushlight.eager.sparse.tensor import SparseTensor, sparse
from rushlight.eager.storage.formats import sparse_coo, sparse_csc, sparse_csr
from rushlight.eager.tensor import Tensor
from rushlight.ops import OPERATORS
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import fail, require
from rushlight.term import Op

Rule = Callable[..., Any]


def answers(*names: str) -> Callable[[Rule], Rule]:
    """Makes a function the kernel of operators for sparse operands, which it takes before attributes."""

    def add(function: Rule) -> Rule:
        for name in names:
            register(OPERATORS[name], Key.SPARSE, function, reenters=True)
        return function

    return add


def _refused(op: Op, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> object:
    if any(isinstance(one, SparseTensor) for one in flatten(operands)):
        fail("A006", f"{op.name}: not supported for sparse tensors", hint="convert it first: x.to_dense()")
    return call_below(Key.SPARSE, op, active, operands, attrs)


register_fallback(Key.SPARSE, _refused, reenters=True)


# Values alone.


def _on_values(name: str, *, linear: bool) -> None:
    """Lets an operator that keeps 0 act on the values; one that is not linear adds up equal places first."""
    op = OPERATORS[name]

    def act(input: SparseTensor, *rest: object, **attrs: Any) -> Tensor:
        kept = input if linear else _merged(input)
        return kept.with_values(op(kept.kept, *rest, **attrs))

    register(op, Key.SPARSE, act, reenters=True)


def _merged(tensor: SparseTensor) -> SparseTensor:
    return tensor.coalesce()


for _name in ("neg", "to_dtype", "clone", "detach", "alias"):
    _on_values(_name, linear=True)
for _name in (
    *("abs", "sqrt", "square", "relu", "sign", "sin", "sinh", "asin", "asinh", "tan", "tanh", "atan", "erf"),
    *("expm1", "log1p", "floor", "ceil", "round", "trunc"),
):
    _on_values(_name, linear=False)


def _is_number(value: object) -> bool:
    return not isinstance(value, Handle) or (not isinstance(value, SparseTensor) and value.ndim == 0)


@answers("mul")
def sparse_mul(input: Tensor, other: Tensor) -> Tensor:
    """The product of elements: with a number, a dense tensor of the shape, or a sparse one."""
    if _is_number(other) or _is_number(input):
        of, number = (input, other) if _is_number(other) else (other, input)
        return of.with_values(of.kept * number)
    _same_shape("mul", input, other)
    if isinstance(input, SparseTensor) and isinstance(other, SparseTensor):
        one, two = input.coalesce(), other.coalesce()
        first, second = join(one.keys_of_places(), two.keys_of_places())
        return sparse(one.places[:, first], one.kept[first] * two.kept[second], one.shape, merged=True)
    of, dense = (input, other) if isinstance(input, SparseTensor) else (other, input)
    return of.with_values(of.kept * dense[tuple(of.places)])


@answers("div")
def sparse_div(input: Tensor, other: Tensor, rounding_mode: str | None = None) -> Tensor:
    """The quotient of elements and a number, or a dense tensor of the shape."""
    if not isinstance(input, SparseTensor) or isinstance(other, SparseTensor):
        fail("A006", "div: a sparse tensor is divided by a number or a dense tensor", input=input, other=other)
    kept = input.coalesce() if rounding_mode else input
    if _is_number(other):
        return kept.with_values(ops.div(kept.kept, other, rounding_mode=rounding_mode))
    _same_shape("div", input, other)
    return kept.with_values(ops.div(kept.kept, other[tuple(kept.places)], rounding_mode=rounding_mode))


@answers("pow")
def sparse_pow(input: Tensor, exponent: float | Tensor) -> Tensor:
    """The power of elements, where the exponent is a number above 0."""
    keeps_zero = isinstance(input, SparseTensor) and not isinstance(exponent, Handle) and exponent > 0
    if not keeps_zero:
        fail("A006", "pow: a sparse tensor has powers by numbers above 0", input=input, exponent=exponent)
    kept = input.coalesce()
    return kept.with_values(kept.kept**exponent)


def _same_shape(name: str, one: Tensor, two: Any) -> None:
    same = tuple(one.shape) == tuple(two.shape)
    require(same, "S014", f"{name}: a sparse tensor needs another one of its shape", input=one, other=two)


@answers("add")
def sparse_add(input: Tensor, other: Tensor, alpha: Any = None) -> Tensor:
    """The sum: sparse of two sparse tensors, else dense."""
    if _is_number(other) or _is_number(input):
        fail("A006", "add: a number added to a sparse tensor makes it dense", hint="convert it first: x.to_dense()")
    _same_shape("add", input, other)
    if not (isinstance(input, SparseTensor) and isinstance(other, SparseTensor)):
        one, two = [part.to_dense() for part in (input, other)]
        return ops.add(one, two) if alpha is None else ops.add(one, two, alpha=alpha)
    values = other.kept if alpha is None else other.kept * alpha
    places = ops.cat((input.places, other.places), 1)
    if input.layout is sparse_coo:
        total = sparse(places, ops.cat((input.kept, values)), input.shape)
        return total.coalesce() if input.merged and other.merged else total
    return sparse(places, ops.cat((input.kept, values)), input.shape).coalesce().to_sparse(layout=input.layout)


@answers("sub")
def sparse_sub(input: Tensor, other: Tensor, alpha: Any = None) -> Tensor:
    """The difference, as the sum with the other's negative."""
    if _is_number(other) or _is_number(input):
        fail("A006", "sub: a number taken from a sparse tensor makes it dense", hint="convert it first: x.to_dense()")
    return sparse_add(input, -other, alpha)


# Products.


@answers("matmul", "mm", "mv")
def sparse_matmul(*factors: Any, **named: Any) -> Tensor:
    """The product of matrices, or of a matrix and a vector, of which one at least is sparse."""
    a, b = (*factors, *named.values())
    return multiply(a, b)


@answers("addmm")
def sparse_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`, dense."""
    added = input.to_dense() if isinstance(input, SparseTensor) else input
    multiplied = multiply(mat1, mat2)
    multiplied = multiplied.to_dense() if isinstance(multiplied, SparseTensor) else multiplied
    return (multiplied if alpha == 1 else multiplied * alpha) + (added if beta == 1 else added * beta)


@answers("linear")
def sparse_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product of sparse rows and a transposed dense weight, plus a bias."""
    product = multiply(input, weight.t())
    return product if bias is None else product + bias


# Dims.


@answers("t", "T", "mT")
def sparse_t(input: SparseTensor) -> SparseTensor:
    """The matrix with its dims exchanged."""
    return sparse_transpose(input, 0, 1) if input.ndim == 2 else input


@answers("transpose")
def sparse_transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """Two sparse dims exchanged; compressed rows become compressed columns."""
    one, two = [wrap_dim(dim, input.ndim, "transpose") for dim in (dim0, dim1)]
    count = input.sparse_dim()
    require(max(one, two) < count, "A006", "transpose: only sparse dims are exchanged", input=input)
    order = list(range(count))
    order[one], order[two] = order[two], order[one]
    shape = [input.shape[dim] for dim in order] + list(input.shape[count:])
    swapped = {sparse_csr: sparse_csc, sparse_csc: sparse_csr}.get(input.layout, sparse_coo)
    layout = input.layout if one == two else swapped
    merged = input.merged and (one == two or input.layout is not sparse_coo)
    places = ops.stack([input.places[dim] for dim in order])
    return sparse(places, input.kept, shape, merged=merged, pointers=input.pointers, layout=layout)


@answers("unsqueeze")
def sparse_unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    """A sparse dim of size 1 inserted."""
    at = wrap_dim(dim, input.ndim + 1, "unsqueeze")
    require(at <= input.sparse_dim(), "A006", "unsqueeze: only sparse dims are inserted", input=input)
    _coordinates("unsqueeze", input)
    rows = list(input.places)
    rows.insert(at, zeros(input.kept.shape[0], dtype=input.places.dtype))
    shape = (*input.shape[:at], 1, *input.shape[at:])
    return sparse(ops.stack(rows), input.kept, shape, merged=input.merged)


def _coordinates(name: str, input: SparseTensor) -> None:
    hint = "convert it first: x.to_sparse_coo()"
    require(input.layout is sparse_coo, "A006", f"{name}: not for compressed layouts", input=input, hint=hint)


@answers("select")
def sparse_select(input: SparseTensor, dim: int, index: int) -> Tensor:
    """The part at one place of a sparse dim; dense where no sparse dim is left."""
    _coordinates("select", input)
    at = wrap_dim(dim, input.ndim, "select")
    require(at < input.sparse_dim(), "A006", "select: only along sparse dims", input=input)
    position = index + input.shape[at] if index < 0 else index
    require(
        0 <= position < input.shape[at], "I001", "select: the index is outside of the dim", input=input, index=index
    )
    chosen = input.places[at] == position
    if input.sparse_dim() == 1:
        return ops.sum(input.kept[chosen], 0)
    rows = [row[chosen] for dim, row in enumerate(input.places) if dim != at]
    shape = (*input.shape[:at], *input.shape[at + 1 :])
    return sparse(ops.stack(rows), input.kept[chosen], shape, merged=input.merged)


@answers("index_select")
def sparse_index_select(input: SparseTensor, index: Tensor, dim: int) -> SparseTensor:
    """The parts at places of a sparse dim, in the order of the index."""
    _coordinates("index_select", input)
    at = wrap_dim(dim, input.ndim, "index_select")
    require(at < input.sparse_dim(), "A006", "index_select: only along sparse dims", input=input)
    chosen, kept = join(index, input.places[at])
    rows = [chosen if dim == at else row[kept] for dim, row in enumerate(input.places)]
    shape = (*input.shape[:at], index.shape[0], *input.shape[at + 1 :])
    return sparse(ops.stack(rows), input.kept[kept], shape)


@answers("cat")
def sparse_cat(tensors: tuple[Any, ...], dim: int = 0) -> SparseTensor:
    """Sparse tensors joined along a sparse dim."""
    parts = [one for one in tensors if isinstance(one, SparseTensor)]
    require(len(parts) == len(tensors), "A006", "cat: all tensors are sparse, or none", tensors=len(tensors))
    at = wrap_dim(dim, parts[0].ndim, "cat")
    begun, places = 0, list[Any]()
    for part in parts:
        _coordinates("cat", part)
        fits = at < part.sparse_dim() == parts[0].sparse_dim()
        others = [size for position, size in enumerate(part.shape) if position != at]
        fits = fits and others == [size for position, size in enumerate(parts[0].shape) if position != at]
        require(fits, "S014", "cat: the tensors differ in other dims", input=parts[0], other=part)
        places.append(ops.stack([row + begun if position == at else row for position, row in enumerate(part.places)]))
        begun += part.shape[at]
    shape = (*parts[0].shape[:at], begun, *parts[0].shape[at + 1 :])
    return sparse(ops.cat(places, 1), ops.cat([part.kept for part in parts]), shape)


# Sums and norms.


def _on_all_values(name: str) -> None:
    """Lets a norm of all elements be that of the stored ones, equal places added up."""
    op = OPERATORS[name]

    def norm(input: SparseTensor, **attrs: Any) -> Tensor:
        order = attrs.get("ord", attrs.get("p"))
        fits = attrs.get("dim") is None and not attrs.get("keepdim") and (order in (None, "fro") or order > 0)
        require(fits, "A006", f"{name}: a sparse tensor has norms of all elements, of orders above 0", input=input)
        return op(input.coalesce().kept, **attrs)

    register(op, Key.SPARSE, norm, reenters=True)


_on_all_values("linalg_vector_norm")
_on_all_values("norm")


@answers("sum")
def sparse_sum(input: SparseTensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The sum of all elements, dense; or along dims, sparse as far as sparse dims are left."""
    require(not keepdim, "A006", "sum: keepdim is not supported for sparse tensors", input=input)
    count = input.sparse_dim()
    values = input.kept if dtype is None else input.kept.to(dtype)
    if dim is None or dim == ():
        return ops.sum(values)
    dims = {wrap_dim(one, input.ndim, "sum") for one in ((dim,) if isinstance(dim, int) else dim)}
    dense = [one - count + 1 for one in dims if one >= count]
    values = ops.sum(values, dense) if dense else values
    rows = [row for position, row in enumerate(input.places) if position not in dims]
    if not rows:
        return ops.sum(values, 0)
    shape = [size for position, size in enumerate(input.shape) if position not in dims]
    return sparse(ops.stack(rows), values, shape).coalesce()
