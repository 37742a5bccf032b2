"""What functions do with nested tensors: a rule for each name, made of functions of the values.

A function without a rule is refused with A006. Derivatives are those of the functions on values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.eager.storage.formats import contiguous_format
from rushlight.ir.dtype import DType
from rushlight.nested.tensor import RULES, NestedTensor, RaggedSize
from rushlight.ops.ragged import segment_numbers, segment_sum
from rushlight.ops.record import OPERATORS, Fact
from rushlight.support.errors import fail, require

Given = Any  # an argument as programs give it, which the functions of values check
Rule = Callable[..., Given]
_F = rl.nn.functional


def answers(*names: str) -> Callable[[Rule], Rule]:
    """Makes a function the rule of functions of these names."""

    def add(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return add


def _first(args: Iterable[object]) -> NestedTensor:
    return next(value for value in args if isinstance(value, NestedTensor))


def _same_members(name: str, one: NestedTensor, other: NestedTensor) -> None:
    """S014 unless two have members of the same lengths, at the same places."""
    alike = one._offsets is other._offsets or (
        one._offsets.shape == other._offsets.shape and bool((one._offsets == other._offsets).all())
    )
    gaps = (one._lengths is None) == (other._lengths is None)
    if alike and gaps and one._lengths is not None and one._lengths is not other._lengths:
        alike = bool((one._lengths == other._lengths).all())
    fits = alike and gaps and one._kind.ragged == other._kind.ragged
    require(
        fits,
        "S014",
        f"{name}: members of nested tensors differ in length",
        input=str(one.shape),
        other=str(other.shape),
    )


def _beside(name: str, whole: NestedTensor, other: Given) -> Any:
    """What stands for an operand beside the values of a nested tensor."""
    if isinstance(other, NestedTensor):
        _same_members(name, whole, other)
        return other._values if other.dim() == whole.dim() else _refuse_dims(name, whole, other)
    if not isinstance(other, Tensor) or not other.ndim:
        return other
    rank, ragged = whole.dim(), whole._kind.ragged
    if other.ndim > rank:
        _refuse_dims(name, whole, other)
    aligned = other.reshape(*[1] * (rank - other.ndim), *other.shape)
    fits = aligned.shape[ragged] == 1 and aligned.shape[0] in (1, len(whole))
    hint = "give the ragged dim size 1, or make it nested"
    require(fits, "S014", f"{name}: a dense tensor does not fit the ragged dim", other=other, hint=hint)
    if aligned.shape[0] == 1:
        return aligned[0]
    count = whole._values.shape[ragged - 1]
    of = segment_numbers(whole._offsets, count).clamp(0, max(len(whole) - 1, 0))
    return aligned.squeeze(ragged).index_select(0, of).movedim(0, ragged - 1)


def _refuse_dims(name: str, whole: NestedTensor, other: Given) -> Any:
    fail("S014", f"{name}: numbers of dims of nested tensors differ", input=str(whole.shape), other=str(other.shape))


_PYTHONS = (
    "radd",
    "rmul",
    "rsub",
    "rtruediv",
    "rpow",
    "truediv",
    "floordiv",
    "mod",
    "invert",
    "and",
    "or",
    "xor",
    "pos",
)
_MADE_OF_OTHERS = (
    *("dropout", "clone", "detach", "to", "float", "double", "half", "bfloat16", "long", "int", "bool", "type_as"),
    *("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "relu", "gelu", "silu"),
    *("sigmoid", "tanh", "leaky_relu", "elu", "softplus", "mish", "hardtanh", "where", "clamp", "masked_fill", "celu"),
    *(
        "nan_to_num",
        "isnan",
        "selu",
        "hardswish",
        "hardsigmoid",
        "logsigmoid",
        "softsign",
        "relu6",
        "isfinite",
        "isinf",
    ),
    *("square", "cpu"),
)


@answers(*[name for name, op in OPERATORS.items() if Fact.POINTWISE in op.facts], *_PYTHONS, *_MADE_OF_OTHERS)
def elementwise(function: Rule, *args: Given, **kwargs: Given) -> NestedTensor:
    """A function of elements, of the values; dense operands are broadcast along the ragged dim."""
    name = getattr(function, "__name__", "")
    require(kwargs.get("out") is None, "A006", f"{name}: nested tensors take no out=")
    whole = _first((*args, *kwargs.values()))
    own = [_beside(name, whole, value) for value in args]
    return whole.like(function(*own, **{key: _beside(name, whole, value) for key, value in kwargs.items()}))


@answers("contiguous")
def contiguous(function: Rule, input: NestedTensor, memory_format: object = contiguous_format) -> NestedTensor:
    """Members without gaps, in memory in a row."""
    require(memory_format is contiguous_format, "A006", "contiguous: nested tensors have one memory format")
    packed = input.packed()
    if packed._kind.ragged == 1:
        return packed.like(packed._values.contiguous())
    return packed.like(packed.rows().contiguous().movedim(0, packed._kind.ragged - 1))


# Layers.


@answers("linear")
def linear(function: Rule, input: NestedTensor, weight: Tensor, bias: Tensor | None = None) -> NestedTensor:
    """A linear layer over the last dim, which is dense."""
    _require_dense("linear", input, input.dim() - 1)
    return input.like(_F.linear(input._values, weight, bias))


def _require_dense(name: str, input: NestedTensor, dim: int) -> None:
    fits = dim not in (0, input._kind.ragged)
    require(fits, "A006", f"{name}: not over the batch or the ragged dim of a nested tensor", dim=dim)


@answers("layer_norm", "rms_norm")
def layer_norm(
    function: Rule, input: NestedTensor, normalized_shape: int | Sequence[int], *args: Given, **kwargs: Given
) -> NestedTensor:
    """A norm over the last dims, which are dense."""
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    _require_dense("layer_norm", input, max(input.dim() - len(sizes), 0))
    require(input.dim() - len(sizes) > input._kind.ragged, "A006", "layer_norm: not over the ragged dim", sizes=sizes)
    return input.like(function(input._values, sizes, *args, **kwargs))


@answers("embedding")
def embedding(function: Rule, input: NestedTensor, weight: Tensor, *args: Given, **kwargs: Given) -> NestedTensor:
    """Rows of a table, by nested indices."""
    return input.like(_F.embedding(input._values, weight, *args, **kwargs))


@answers("softmax", "log_softmax")
def softmax(function: Rule, input: NestedTensor, dim: int, *args: Given, **kwargs: Given) -> NestedTensor:
    """The softmax over a dense dim, or over each member."""
    place = input.place(dim)
    require(place != 0, "A006", "softmax: not over the batch of a nested tensor", dim=dim)
    if place != input._kind.ragged:
        return input.like(function(input._values, place - 1, *args, **kwargs))
    packed = input.packed()
    return packed.unpadded(function(packed.padded(-math.inf), place, *args, **kwargs))


@answers("matmul", "bmm")
def matmul(function: Rule, input: Given, other: Given) -> Tensor:
    """The product with a matrix, with one matrix for each member, or of members whose ragged dims meet."""
    if not isinstance(input, NestedTensor):
        fail("A006", "matmul: a dense tensor times a nested one is not supported", hint="pad first")
    rank, ragged = input.dim(), input._kind.ragged
    if isinstance(other, NestedTensor):
        meets = ragged == rank - 1 and other._kind.ragged == rank - 2 and other.dim() == rank
        require(meets, "A006", "matmul: nested tensors are multiplied over their ragged dim", input=str(input.shape))
        turned = other.packed().transpose(-1, -2)
        _same_members("matmul", input.packed(), turned)
        return input.padded() @ other.padded()
    _require_dense("matmul", input, rank - 1)
    if other.ndim <= 2:
        return input.like(input._values @ other)
    packed = input.packed()
    return packed.unpadded(packed.padded() @ other)


@answers("scaled_dot_product_attention")
def attention(
    function: Rule,
    query: Given,
    key: Given,
    value: Given,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> NestedTensor:
    """Attention within each member: queries, keys and values [batch, heads, ragged, width]."""
    parts = [query, key, value]
    fits = all(isinstance(one, NestedTensor) and one._kind.ragged == one.dim() - 2 for one in parts)
    hint = "x.transpose(1, 2) of [batch, ragged, heads, width]"
    require(fits, "A006", "scaled_dot_product_attention: all are nested before their last dim", hint=hint)
    require(attn_mask is None, "A006", "scaled_dot_product_attention: nested tensors take no mask")
    q, k, v = (one.packed() for one in parts)
    _same_members("scaled_dot_product_attention", k, v)
    keys, queries = k.padded(), q.padded()
    places = rl.arange(keys.shape[-2])
    allowed = (places < k.extents()[:, None]).reshape(-1, *[1] * (q.dim() - 2), keys.shape[-2])
    if is_causal:
        allowed = allowed & (places <= rl.arange(queries.shape[-2])[:, None])
    result = _F.scaled_dot_product_attention(
        queries, keys, v.padded(), allowed, dropout_p, False, scale=scale, enable_gqa=enable_gqa
    )
    return q.unpadded(result)


# Reductions.


def _dims(input: NestedTensor, dim: Given) -> list[int]:
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    return sorted({input.place(one) for one in given})


@answers("sum")
def sum_(
    function: Rule, input: NestedTensor, dim: Given = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum of all elements, over dense dims, over each member, or over batch and members."""
    return _reduced("sum", input.packed(), dim, keepdim, dtype)


@answers("mean")
def mean(
    function: Rule, input: NestedTensor, dim: Given = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean of all elements, over dense dims, over each member, or over batch and members."""
    return _reduced("mean", input.packed(), dim, keepdim, dtype)


def _reduced(name: str, input: NestedTensor, dim: Given, keepdim: bool, dtype: DType | None) -> Tensor:
    values, ragged = input._values, input._kind.ragged
    function = getattr(Tensor, name)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return function(values, dtype=dtype)
    dims = _dims(input, dim)
    if 0 in dims:
        require(ragged in dims, "A006", f"{name}: over the batch, with the ragged dim alone", dim=dim)
        result = function(values, [one - 1 for one in dims if one], keepdim, dtype=dtype)
        return result.unsqueeze(0) if keepdim else result
    if ragged not in dims:
        left = ragged if keepdim else ragged - sum(one < ragged for one in dims)
        return input.like(function(values, [one - 1 for one in dims], keepdim, dtype=dtype), left)
    return _over_members(name, input, dims, keepdim, dtype)


def _over_members(name: str, input: NestedTensor, dims: list[int], keepdim: bool, dtype: DType | None) -> Tensor:
    """Sums over each member, and over other dense dims: a segment for each member."""
    ragged = input._kind.ragged
    rows = input.rows() if dtype is None else input.rows().to(dtype)
    if not rows.dtype.is_floating_point:
        require(name == "sum", "D001", f"{name}: of floating-point elements", dtype=rows.dtype)
        return input.like(input._values if dtype is None else input._values.to(dtype)).padded().sum(dims, keepdim)
    flat = rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
    sums = segment_sum(flat, input._offsets).reshape(len(input), *rows.shape[1:])
    whole = sums.unsqueeze(1).movedim(1, ragged)
    if name == "mean":
        count = input.extents().reshape(-1, *[1] * (whole.ndim - 1))
        whole = whole / count
    others = [one for one in dims if one != ragged]
    if others:
        whole = getattr(whole, name)(others, True)
    return whole if keepdim else whole.squeeze(tuple(dims))


@answers("amax", "amin")
def amax(function: Rule, input: NestedTensor, dim: Given = (), keepdim: bool = False) -> Tensor:
    """The largest, or smallest, elements over dims other than that of the batch."""
    packed, name = input.packed(), function.__name__
    values, ragged = packed._values, packed._kind.ragged
    dims = _dims(input, dim) if dim != () else []
    if not dims:
        return function(values)
    require(0 not in dims, "A006", f"{name}: not over the batch of a nested tensor", dim=dim)
    if ragged in dims:
        require(packed.dtype.is_floating_point, "D001", f"{name}: of floating-point elements", dtype=packed.dtype)
        return function(packed.padded(-math.inf if name == "amax" else math.inf), dims, keepdim)
    left = ragged if keepdim else ragged - sum(one < ragged for one in dims)
    return packed.like(function(values, [one - 1 for one in dims], keepdim), left)


# Shapes.


@answers("transpose", "swapaxes", "swapdims")
def transpose(function: Rule, input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    """Two dims exchanged, not that of the batch."""
    one, two, ragged = input.place(dim0), input.place(dim1), input._kind.ragged
    require(one != 0 and two != 0, "A006", "transpose: the batch of a nested tensor stays first", dims=(dim0, dim1))
    moved = {one: two, two: one}.get(ragged, ragged)
    return input.like(input._values.transpose(one - 1, two - 1), moved)


@answers("unsqueeze")
def unsqueeze(function: Rule, input: NestedTensor, dim: int) -> NestedTensor:
    """A dim of size 1, behind that of the batch."""
    place = dim + input.dim() + 1 if dim < 0 else dim
    require(0 < place <= input.dim(), "A006", "unsqueeze: the batch of a nested tensor stays first", dim=dim)
    return input.like(input._values.unsqueeze(place - 1), input._kind.ragged + (place <= input._kind.ragged))


@answers("squeeze")
def squeeze(function: Rule, input: NestedTensor, dim: int) -> NestedTensor:
    """A dense dim of size 1 left out."""
    place = input.place(dim)
    _require_dense("squeeze", input, place)
    if input._values.shape[place - 1] != 1:
        return input.like(input._values)
    return input.like(input._values.squeeze(place - 1), input._kind.ragged - (place < input._kind.ragged))


@answers("unflatten")
def unflatten(function: Rule, input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    """A dense dim as several."""
    place = input.place(dim)
    _require_dense("unflatten", input, place)
    more = len(sizes) - 1 if place < input._kind.ragged else 0
    return input.like(input._values.unflatten(place - 1, tuple(sizes)), input._kind.ragged + more)


@answers("flatten")
def flatten(function: Rule, input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    """Dense dims as one."""
    start, end, ragged = input.place(start_dim), input.place(end_dim), input._kind.ragged
    fits = start > 0 and not start <= ragged <= end
    require(fits, "A006", "flatten: dense dims of a nested tensor alone", dims=(start_dim, end_dim))
    return input.like(input._values.flatten(start - 1, end - 1), ragged - (end - start if end < ragged else 0))


@answers("view", "reshape")
def reshape(function: Rule, input: NestedTensor, *shape: Given) -> NestedTensor:
    """Other dense sizes; the batch and the ragged dim, given as it is or as -1, stay."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    own = input.ragged_size()
    places = [at for at, size in enumerate(sizes) if isinstance(size, RaggedSize)]
    if not places:
        places = [at for at, size in enumerate(sizes) if size == -1][:1]
    right = len(places) == 1 and places[0] > 0 and (sizes[places[0]] == -1 or sizes[places[0]] is own)
    right = right and sizes[0] in (-1, len(input))
    require(right, "S009", "view: batch and ragged dim of a nested tensor stay", shape=str(sizes))
    at, ragged, values = places[0], input._kind.ragged, input._values
    before, after = math.prod(values.shape[: ragged - 1]), math.prod(values.shape[ragged:])
    wanted = sizes[1:at], sizes[at + 1 :]
    fits = all(-1 in part or math.prod(part) == of for part, of in zip(wanted, (before, after), strict=True))
    require(fits, "S009", "view: sizes before and behind the ragged dim keep their product", shape=str(sizes))
    return input.like(values.reshape(*sizes[1:at], values.shape[ragged - 1], *sizes[at + 1 :]), at)


@answers("getitem", "select")
def getitem(function: Rule, input: NestedTensor, *index: Given) -> Tensor:
    """A member, by its number."""
    at: Given = index[0] if len(index) == 1 else index[1] if input.place(index[0]) == 0 else None
    known = isinstance(at, int) and not isinstance(at, bool)
    require(known, "A006", "a nested tensor is indexed by the number of a member", index=index, hint="x.unbind()[i]")
    count = len(input)
    if not -count <= at < count:
        fail("I001", f"there are {count} members", index=at)
    return input.unbind()[at]


@answers("cat", "concat")
def cat(function: Rule, tensors: Sequence[Given], dim: int = 0) -> NestedTensor:
    """Nested tensors of the same members joined along a dense dim."""
    whole = _first(tensors)
    place = whole.place(dim)
    _require_dense("cat", whole, place)
    return whole.like(rl.cat([_beside("cat", whole, one) for one in tensors], place - 1))


@answers("chunk", "split", "tensor_split")
def chunk(function: Rule, input: NestedTensor, size: int | Sequence[int], dim: int = 0) -> tuple[NestedTensor, ...]:
    """Parts along a dense dim: so many, or of such sizes."""
    place = input.place(dim)
    _require_dense(function.__name__, input, place)
    return tuple([input.like(part) for part in function(input._values, size, place - 1)])


@answers("iter")
def members(function: Rule, input: NestedTensor) -> Iterable[Tensor]:
    """The members, one after the other."""
    return iter(input.unbind())


@answers("unbind")
def unbind(function: Rule, input: NestedTensor, dim: int = 0) -> Sequence[Tensor]:
    """The members."""
    return input.unbind(dim)
