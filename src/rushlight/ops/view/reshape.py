"""Views and copies that group the same elements, in row-major order, into other dims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from rushlight.ir.loops import Operand
from rushlight.ir.scalar import Scalar
from rushlight.ir.type import Layout, TensorType, contiguous_strides
from rushlight.ir.value import Value
from rushlight.ops.dims import Array, At, Shape, normal, own_dim, replaced, same_known, same_size, wrap_dim, zero
from rushlight.ops.record import Fact, Sample, define
from rushlight.support.errors import fail, require
from rushlight.sym import Size, eq, ge, guard_or_false, has_example, minimum, ne, optimization_hint, product, required

STRIDES = "view: dims that are merged lie dense in each other"
SHARED = "view: what is written to, or was copied before, is no view: strides do not allow one"
FITTING = "view: whole dims fit each other; else those that are merged have to lie dense, which is asserted"


def completed_shape(old: Shape, new: Shape, op: str) -> Shape:
    """`new` with its -1 worked out; S004 when the numbers of elements differ."""
    open_dims = [dim for dim, size in enumerate(new) if isinstance(size, int) and size == -1]
    require(len(open_dims) <= 1, "S004", f"{op}: at most one size may be -1", shape=new)
    for size in new:
        require(required(ge(size, -1 if isinstance(size, int) else 0)), "S007", f"{op}: a size is negative", shape=new)
    count = product(old)
    if not open_dims:
        if not same_size(count, product(new)):
            fail("S004", f"{op}: the new shape has another number of elements", input=old, shape=new)
        return new
    others = product([size for dim, size in enumerate(new) if dim != open_dims[0]])
    if not required(ne(others, 0), f"{op}: -1 is not ambiguous"):
        fail("S004", f"{op}: -1 is ambiguous beside a size of 0", input=old, shape=new)
    open_size = count // others
    if not same_size(open_size * others, count):
        fail("S004", f"{op}: the new shape has another number of elements", input=old, shape=new)
    return replaced(new, open_dims[0], open_size)


Equal = Callable[[Size, Size], bool]


def view_layout(layout: Layout, shape: Shape, equal: Equal = same_known, joined: Equal = same_known) -> Layout | None:
    """Return the layout that shows the elements of `layout` in the complete shape `shape`.

    It is None where no strides show them so. `equal` compares sizes, and `joined` the stride of a dim with the length
    of the dim within: by what is known, or with guards where a view is demanded.
    """
    if layout.shape == shape:
        return layout
    if any(_is(0, size, equal) for size in layout.shape):
        return Layout(shape, contiguous_strides(shape), layout.offset)
    runs = _dense_runs(layout, joined)
    if len(runs) <= 1:
        return _within_run(shape, runs[0][1] if runs else 1, layout.offset)
    strides: list[Size] = []
    # From the innermost dim out: each run of old dims that lie dense in each other must be cut by whole new dims.
    rest = list(reversed(shape))
    for size, step in reversed(runs):
        left = size
        while not _is(1, left, equal):
            if not rest:
                return None
            strides.append(step)
            new = rest.pop(0)
            if isinstance(new, int) and new == 1:
                continue
            if (isinstance(new, int) and new == 0) or not equal((left // new) * new, left):
                return None
            step, left = step * new, left // new
        while rest and _is(1, rest[0], equal):
            strides.append(step)
            rest.pop(0)
    if not all(_is(1, size, equal) for size in rest):
        return None
    for _ in rest:
        strides.append(strides[-1] if strides else 1)
    return Layout(shape, tuple(reversed(strides)), layout.offset)


def _within_run(shape: Shape, step: Size, offset: Size) -> Layout:
    """The layout of a shape whose elements lie one after the other, `step` apart."""
    return Layout(shape, tuple([step * stride for stride in contiguous_strides(shape)]), offset)


def _is(value: int, size: Size, equal: Equal) -> bool:
    """Whether a size has a value; of a symbol that is asked only where its hint says so."""
    return size == value if isinstance(size, int) else optimization_hint(size) == value and equal(size, value)


def _dense_runs(layout: Layout, joined: Equal) -> list[tuple[Size, Size]]:
    """Dims that lie dense in each other, merged: (number of elements, innermost stride), outermost first."""
    runs: list[tuple[Size, Size]] = []
    for size, stride in zip(layout.shape, layout.strides, strict=True):
        if isinstance(size, int) and size == 1:
            continue
        if runs and joined(runs[-1][1], stride * size):
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return runs


def regrouped(at: tuple[Size, ...], shape: Shape, old: Shape) -> tuple[Size, ...]:
    """The index in `old` of the element that has index `at` in `shape`, both in row-major order.

    Dims are matched in groups of equal numbers of elements, so that untouched dims keep a plain index. No element has
    an index in a shape with a size of 0, where all are 0.
    """
    if any(isinstance(size, int) and size == 0 for size in old):
        return (0,) * len(old)
    result: list[Size] = []
    for new_dims, old_dims in _groups(shape, old):
        linear: Size = 0
        for dim in new_dims:
            linear = linear * shape[dim] + at[dim]
        index: list[Size] = []
        for position, dim in enumerate(reversed(old_dims)):
            last = position == len(old_dims) - 1
            index.append(linear if last else linear % old[dim])
            linear = linear // old[dim] if not last else 0
        result.extend(reversed(index))
    return tuple(result)


def _groups(new: Shape, old: Shape) -> Iterator[tuple[range, range]]:
    """Runs of dims, outermost first, in which both shapes have provably the same number of elements."""
    i = j = 0
    while i < len(new) or j < len(old):
        start, begin = i, j
        left: Size = 1
        right: Size = 1
        while not ((i > start and j > begin and same_known(left, right)) or (i == len(new) and j == len(old))):
            if i < len(new) and (j == len(old) or _divides(left, right)):
                left, i = left * new[i], i + 1
            elif j < len(old):
                right, j = right * old[j], j + 1
            else:
                left, i = left * new[i], i + 1
        yield range(start, i), range(begin, j)


def _divides(a: Size, b: Size) -> bool:
    return same_known((b // a) * a, b)


def _element(input: Operand, at: At, shape: Shape) -> Scalar:
    """The operand's element at index `at` of its row-major reading in `shape`."""
    if any(isinstance(size, int) and size == 0 for size in (*shape, *input.shape)):
        return zero(input.dtype)
    return input[regrouped(at, shape, input.shape)]


view = define(
    "view(Tensor(a) input, Size[] size) -> Tensor(a)",
    "The same storage in another shape; fails where strides do not allow it. One size may be -1.",
    facts=Fact.VIEW,
)


@view.view
def view_view(input: Layout, size: Shape) -> Layout:
    shape = completed_shape(input.shape, size, "view")
    layout = view_layout(input, shape, _decided) or _demanded(input, shape)
    layout = layout or view_layout(input, shape, _decided, _decided)
    if layout is None:
        fail("S006", "view: the strides do not allow this shape", input=input.shape, strides=input.strides, size=size)
    return layout


def _decided(a: Size, b: Size) -> bool:
    return guard_or_false(eq(a, b), FITTING)


def _demanded(layout: Layout, shape: Shape) -> Layout | None:
    """The layout of a view where nobody knows how dims fit: dims that are merged have to lie dense in each other."""
    strides: list[Size] = []
    for new_dims, old_dims in _groups(shape, layout.shape):
        for outer, inner in pairwise(old_dims):
            wanted = layout.strides[inner] * layout.shape[inner]
            if not dense(layout.shape, layout.shape[outer], layout.strides[outer], wanted):
                return None
        step = layout.strides[old_dims[-1]] if old_dims else 1
        strides.extend([step * stride for stride in contiguous_strides(tuple([shape[dim] for dim in new_dims]))])
    return Layout(shape, tuple(strides), layout.offset)


def dense(shape: Shape, size: Size, stride: Size, wanted: Size) -> bool:
    """Return whether a dim has the stride `wanted`, where its stride matters.

    A stride does not matter in an empty tensor, or for a dim with one index.
    """
    matters = minimum(product(shape), 1) * minimum(size - 1, 1)
    return stride is wanted or required(eq(matters * stride, matters * wanted), STRIDES)


Dim = tuple[Size, Size, Size]  # whether a dim's stride matters, as 0 or 1; the stride; and the one that it should have


def _lie_as_asked(dims: Sequence[Dim]) -> bool:
    """Return whether all dims whose strides matter have the strides that they should have.

    Where symbols leave that open the answer is no, and a run-time assert checks that one of them differs.
    """
    left = [row for row in dims if not guard_or_false(eq(row[0] * row[1], row[0] * row[2]), SHARED)]
    return not any(required(ne(matters * (stride - wanted), 0), SHARED) for matters, stride, wanted in left)


def _together(layout: Layout, dims: Sequence[int]) -> list[Dim]:
    """What neighbours among dims with several indices have to be for these to lie dense."""
    not_empty = minimum(product(layout.shape), 1)
    return [
        (
            not_empty * minimum(layout.shape[outer] - 1, 1) * minimum(layout.shape[inner] - 1, 1),
            layout.strides[outer],
            layout.strides[inner] * layout.shape[inner],
        )
        for outer, inner in pairwise(dims)
    ]


@view.ref
def view_ref(input: Array, size: Shape) -> Array:
    return np.reshape(input, size)


@view.lower
def view_lower(at: At, input: Operand, size: Shape) -> Scalar:
    return _element(input, at, completed_shape(input.shape, size, "view"))


@view.vjp(types=("input",))
def view_vjp(g: Value, input: TensorType) -> Value:
    return reshape(g, input.shape)


@view.inverse
def view_inverse(base: Value, value: Value, size: Shape) -> Value:
    return reshape(value, base.shape)


@view.samples
def view_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), (6, 4))
    yield Sample(normal(rng, 6, 4), (-1, 3, 2, 2))
    yield Sample(normal(rng), (1, 1))


reshape = define(
    "reshape(Tensor(a) input, Size[] shape) -> Tensor(a)",
    "The same elements, row-major, in another shape: a view where strides allow, else a copy. One size may be -1.",
)


@reshape.meta
def reshape_meta(input: TensorType, shape: Shape) -> TensorType:
    new = completed_shape(input.shape, shape, "reshape")
    layout = view_layout(Layout(input.shape, input.strides), new)
    return TensorType(new, input.dtype, input.device, layout.strides if layout else None, input.weak)


@reshape.view
def reshape_view(input: Layout, shape: Shape) -> Layout | None:
    return view_layout(input, completed_shape(input.shape, shape, "reshape"))


@reshape.shares
def reshape_shares(input: Layout, shape: Shape) -> Layout | None:
    new = completed_shape(input.shape, shape, "reshape")
    layout = view_layout(input, new, _decided)
    if layout is not None:
        return layout
    dims: list[Dim] = []
    strides: list[Size] = []
    for new_dims, old_dims in _groups(new, input.shape):
        several = [dim for dim in old_dims if not guard_or_false(eq(input.shape[dim], 1), SHARED)]
        if len(several) > 1 and len(new_dims) > 1 and not all(map(has_example, (*new, *input.shape, *input.strides))):
            fail("C013", "reshape: sizes that nobody knows say whether it is a view", input=input.shape, shape=new)
        dims += _together(input, several)
        step = input.strides[several[-1]] if several else 1
        strides += [step * stride for stride in contiguous_strides(tuple([new[dim] for dim in new_dims]))]
    return Layout(new, tuple(strides), input.offset) if _lie_as_asked(dims) else None


@reshape.ref
def reshape_ref(input: Array, shape: Shape) -> Array:
    return np.reshape(input, shape)


@reshape.lower
def reshape_lower(at: At, input: Operand, shape: Shape) -> Scalar:
    return _element(input, at, completed_shape(input.shape, shape, "reshape"))


@reshape.vjp(types=("input",))
def reshape_vjp(g: Value, input: TensorType) -> Value:
    return reshape(g, input.shape)


@reshape.inverse
def reshape_inverse(base: Value, value: Value, shape: Shape) -> Value:
    return reshape(value, base.shape)


@reshape.samples
def reshape_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4), (6, 4))
    yield Sample(normal(rng, 4, 6), (3, -1))
    yield Sample(normal(rng, 2, 3, 4).transpose(2, 0, 1), (4, -1))
    yield Sample(normal(rng, 1), ())


reshape_as = define("reshape_as(Tensor(a) input, Tensor other) -> Tensor(a)", "Reshaped to another tensor's shape.")


@reshape_as.decompose
def reshape_as_decompose(input: Value, other: Value) -> Value:
    return reshape(input, other.shape)


@reshape_as.ref
def reshape_as_ref(input: Array, other: Array) -> Array:
    return np.reshape(input, other.shape)


@reshape_as.samples
def reshape_as_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4), normal(rng, 2, 6))


view_as = define("view_as(Tensor(a) input, Tensor other) -> Tensor(a)", "Viewed in the shape of another tensor.")


@view_as.decompose
def view_as_decompose(input: Value, other: Value) -> Value:
    return view(input, other.shape)


@view_as.ref
def view_as_ref(input: Array, other: Array) -> Array:
    return np.reshape(input, other.shape)


@view_as.samples
def view_as_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 4), normal(rng, 2, 6))


flatten = define(
    "flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor(a)", "A range of dims merged into one."
)


def _flattened(shape: Shape, start_dim: int, end_dim: int) -> Shape:
    first, last = wrap_dim(start_dim, len(shape), "flatten"), wrap_dim(end_dim, len(shape), "flatten")
    require(first <= last, "A004", "flatten: start_dim comes after end_dim", start_dim=start_dim, end_dim=end_dim)
    return (*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :])


@flatten.decompose
def flatten_decompose(input: Value, start_dim: int, end_dim: int) -> Value:
    return reshape(input, _flattened(input.shape, start_dim, end_dim))


@flatten.ref
def flatten_ref(input: Array, start_dim: int, end_dim: int) -> Array:
    return np.reshape(input, _flattened(input.shape, start_dim, end_dim))


@flatten.samples
def flatten_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3, 4))
    yield Sample(normal(rng, 2, 3, 4), 1)
    yield Sample(normal(rng, 2, 3, 4), 0, 1)
    yield Sample(normal(rng))


ravel = define("ravel(Tensor(a) input) -> Tensor(a)", "All dims merged into one.")


@ravel.decompose
def ravel_decompose(input: Value) -> Value:
    return reshape(input, (product(input.shape),))


@ravel.ref
def ravel_ref(input: Array) -> Array:
    return input.reshape(-1)


@ravel.samples
def ravel_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 3))


unflatten = define("unflatten(Tensor(a) input, int dim, Size[] sizes) -> Tensor(a)", "One dim split into several.")


def _unflattened(shape: Shape, dim: int, sizes: Shape) -> Shape:
    position = own_dim(dim, shape, "unflatten")
    return replaced(shape, position, *completed_shape((shape[position],), sizes, "unflatten"))


@unflatten.decompose
def unflatten_decompose(input: Value, dim: int, sizes: Shape) -> Value:
    return view(input, _unflattened(input.shape, dim, sizes))


@unflatten.ref
def unflatten_ref(input: Array, dim: int, sizes: Shape) -> Array:
    return np.reshape(input, _unflattened(input.shape, dim, sizes))


@unflatten.samples
def unflatten_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 2, 12), 1, (3, -1))
    yield Sample(normal(rng, 6, 2), 0, (2, 3))


contiguous = define(
    "contiguous(Tensor(a) input) -> Tensor(a)",
    "The same elements laid out row-major: itself where it is already.",
    facts=Fact.STORED,
)


@contiguous.meta
def contiguous_meta(input: TensorType) -> TensorType:
    return TensorType(input.shape, input.dtype, input.device)


@contiguous.view
def contiguous_view(input: Layout) -> Layout | None:
    return input if is_row_major(input) else None


@contiguous.shares
def contiguous_shares(input: Layout) -> Layout | None:
    rows = zip(input.shape, input.strides, contiguous_strides(input.shape), strict=True)
    some = minimum(product(input.shape), 1)
    dims = [(some * minimum(size - 1, 1), stride, wanted) for size, stride, wanted in rows]
    return input if _lie_as_asked(dims) else None


@contiguous.inverse
def contiguous_inverse(base: Value, value: Value) -> Value:
    return value


@contiguous.ref
def contiguous_ref(input: Array) -> Array:
    return np.ascontiguousarray(input).reshape(input.shape)


@contiguous.lower
def contiguous_lower(at: At, input: Operand) -> Scalar:
    return input[at]


@contiguous.vjp
def contiguous_vjp(g: Value) -> Value:
    return g


@contiguous.samples
def contiguous_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(normal(rng, 3, 2).T)
    yield Sample(normal(rng))


def is_row_major(layout: Layout) -> bool:
    """Return whether the elements lie in row-major order without gaps, as `Tensor.is_contiguous`.

    The strides of dims of size 1 do not count.
    """
    if any(isinstance(size, int) and size == 0 for size in layout.shape):
        return True
    step: Size = 1
    for size, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        if isinstance(size, int) and size == 1:
            continue
        if not same_known(stride, step):
            return False
        step = step * size
    return True
