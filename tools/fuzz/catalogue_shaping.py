"""Forms of calls that view, join, index and create."""

from __future__ import annotations

from math import prod

from tools.fuzz.catalogue_pointwise import CallMaker
from tools.fuzz.drawing import Draw
from tools.fuzz.program import DTYPES


def _parted(d: Draw, count: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    sizes: list[int] = []
    while d.chance(0.7) and len(sizes) < 4:
        factors = [factor for factor in (1, 2, 3, 4, 5, 7, 8, 9) if count and count % factor == 0]
        factor = d.pick(factors or [1])
        sizes.append(factor)
        count //= factor
    sizes.append(count)
    d.random.shuffle(sizes)
    return tuple(sizes)


def _reshape(d: Draw) -> str:
    x = d.value()
    shape = list(_parted(d, prod(d.shape(x))))
    if d.chance(0.3) and prod(shape):
        shape[d.random.randrange(len(shape))] = -1
    text = ", ".join(map(str, shape))
    return d.pick(
        (f"{x}.reshape({text})", f"torch.reshape({x}, ({text},))", f"{x}.view({text})", f"{x}.reshape({x}.shape)")
    )


def _permute(d: Draw) -> str:
    x = d.value()
    rank = d.rank(x)
    order = list(range(rank))
    if d.chance(0.2):
        d.random.shuffle(order)
    else:
        order = order[::-1]
    a, b = (d.dim(x), d.dim(x)) if d.chance(0.4) or rank < 2 else (-1, -2)
    ways = [f"{x}.permute({tuple(order)})", f"{x}.transpose({a}, {b})", f"torch.swapaxes({x}, {a}, {b})"]
    ways += [
        f"{x}.movedim({a}, {b})",
        f"{x}.t()",
        f"{x}.mT",
        f"torch.moveaxis({x}, {a}, {b})",
        f"{x}.T" if rank == 2 else f"{x}.t()",
    ]
    return d.pick(ways)


def _squeeze(d: Draw) -> str:
    x = d.value()
    dim = d.dim(x)
    ways = [
        f"{x}.squeeze()",
        f"{x}.squeeze({dim})",
        f"torch.squeeze({x}, {d.dims(x)})",
        f"{x}.unsqueeze({d.dim(x, 1)})",
    ]
    return d.pick([*ways, f"torch.unsqueeze({x}, {d.dim(x, 1)})", f"torch.atleast_1d({x})", f"torch.atleast_2d({x})"])


def _expand(d: Draw) -> str:
    x = d.value()
    shape = [d.pick((2, 3)) if size == 1 and d.chance(0.7) else d.pick((size, -1)) for size in d.shape(x)]
    lead = [d.pick((1, 2, 3))] if d.chance(0.4) else []
    whole = ", ".join(map(str, [*lead, *shape]))
    target = ", ".join(
        map(str, [*lead, *[size if size >= 0 else own for size, own in zip(shape, d.shape(x), strict=True)]])
    )
    return d.pick(
        (
            f"{x}.expand({whole})" if whole else f"{x}.expand(())",
            f"torch.broadcast_to({x}, ({target}{',' * bool(target)}))",
        )
    )


def _flatten(d: Draw) -> str:
    x = d.value()
    first = d.random.randrange(max(d.rank(x), 1))
    last = d.random.randrange(first, max(d.rank(x), 1))
    return d.pick(
        (
            f"{x}.flatten()",
            f"{x}.flatten({first}, {last})",
            f"torch.ravel({x})",
            f"torch.flatten({x}, {first})",
            f"{x}.contiguous()",
        )
    )


def _unflatten(d: Draw) -> str:
    x = d.value(least=1)
    dim = d.random.randrange(d.rank(x))
    return f"{x}.unflatten({dim}, {_parted(d, d.shape(x)[dim])})"


def _part(d: Draw) -> str:
    x = d.value(least=1)
    dim = d.random.randrange(d.rank(x))
    size = d.shape(x)[dim]
    start = d.random.randrange(size + 1)
    length = d.random.randrange(size - start + 1) + d.chance(0.02)
    ways = [
        f"{x}.narrow({dim}, {start}, {length})",
        f"torch.split({x}, {d.pick((1, 2, 3, size or 1))}, {dim})",
        f"torch.chunk({x}, {d.pick((1, 2, 3))}, {dim})",
    ]
    if size:
        at = d.random.randrange(-size, size)
        ways += [f"{x}.select({dim}, {at})", f"torch.split({x}, [{start}, {size - start}], {dim})"]
        window = d.random.randrange(1, size + 1)
        ways.append(f"{x}.unfold({dim}, {window}, {d.pick((1, 2))})")
    if size <= 5:
        ways.append(f"torch.unbind({x}, {dim})")
    return d.pick(ways)


def _diagonal(d: Draw) -> str:
    x = d.value(least=2)
    a, b = d.random.sample(range(d.rank(x)), 2)
    offset = d.pick((0, 1, -1, 2))
    return d.pick(
        (
            f"{x}.diagonal()",
            f"torch.diagonal({x}, {offset}, {a}, {b})",
            f"torch.tril({x}, {offset})",
            f"{x}.triu({offset})",
        )
    )


def _repeat(d: Draw) -> str:
    x = d.value()
    times = [d.pick((1, 2, 0, 3)) for _ in range(d.rank(x) + d.chance(0.3))]
    if prod(times) * prod(d.shape(x)) > 2000:
        times = [1] * len(times)
    text = ", ".join(map(str, times))
    ways = [
        f"{x}.repeat({text or '()'})",
        f"torch.tile({x}, ({text}{',' * bool(text)}))",
        f"torch.flip({x}, {d.dims(x)})",
    ]
    if d.rank(x):
        dim = d.random.randrange(d.rank(x))
        ways += [f"torch.roll({x}, {d.pick((1, -2, 5, 0))}, {dim})", f"torch.repeat_interleave({x}, 2, dim={dim})"]
        counts = d.new((d.shape(x)[dim],), "int64", lambda count: d.numbers.integers(0, 3, count))
        ways.append(f"torch.repeat_interleave({x}, {counts}, dim={dim})")
    return d.pick([*ways, f"torch.roll({x}, 3)"])


def _join(d: Draw) -> str:
    x = d.value()
    others = [x] + [d.like(x) if d.chance(0.7) else d.like(x, "any") for _ in range(d.pick((0, 1, 1, 2)))]
    if d.chance(0.1) and d.rank(x) == 1:
        others.append(d.new((0,), d.dtype_name(x)))
    d.random.shuffle(others)
    listed = f"[{', '.join(others)}]"
    if d.chance(0.2):
        return f"torch.{d.pick(('hstack', 'vstack', 'row_stack'))}({listed})"
    if d.chance(0.5):
        return f"torch.stack({listed}, {d.dim(x, 1)})"
    return f"torch.{d.pick(('cat', 'concat', 'concatenate'))}({listed}, {'dim=' * d.chance(0.5)}{d.dim(x)})"


def _grid(d: Draw) -> str:
    x, y = d.value(rank=1), d.value(rank=1)
    if d.chance(0.5) and prod(d.shape(x)) * prod(d.shape(y)) < 700:
        return f"torch.meshgrid({x}, {y}, indexing='{d.pick(('ij', 'xy'))}')"
    x = d.value()
    return f"torch.broadcast_tensors({x}, {d.broadcast(x)})"


def _subscript(d: Draw, x: str) -> str:
    """An index of ints, slices, None, Ellipsis, sequences, tensors and masks."""
    parts: list[str] = []
    for size in d.shape(x)[: d.random.randrange(d.rank(x) + 1)]:
        way = d.random.random()
        if way < 0.3 and size:
            parts.append(str(d.random.randrange(-size, size)))
        elif way < 0.75:
            first, last = d.pick(("", "", 1, -1, 0)), d.pick(("", "", size, -1, 2))
            parts.append(f"{first}:{last}{d.pick(('', ':2', ':3'))}")
        elif way < 0.85 and size:
            parts.append(d.indices(d.pick(((2,), (3,), (0,), (2, 2), ())), size))
        else:
            parts.append(":")
    if d.chance(0.15):
        parts.insert(d.random.randrange(len(parts) + 1), "None")
    if d.chance(0.2):
        parts.append("...")
    return ", ".join(parts) or "..."


def _index(d: Draw) -> str:
    x = d.value()
    if d.chance(0.2):
        mask = d.like(x, "bool")
        return d.pick((f"{x}[{mask}]", f"torch.masked_select({x}, {d.broadcast(x, 'bool')})"))
    return f"{x}[{_subscript(d, x)}]"


def _assign(d: Draw) -> str:
    x = d.value()
    if d.chance(0.25):
        return f"{x}[{d.like(x, 'bool')}] = {d.scalar(x)}"
    target = f"{x}[{_subscript(d, x)}]"
    try:
        part = eval(target, {**d.live, "torch": d.torch})  # noqa: S307 - our own text
    except Exception:  # noqa: BLE001 - PyTorch says what it refuses when the statement runs
        return f"{target} = {d.scalar(x)}"
    shape = tuple(part.shape)
    if d.chance(0.4) or prod(shape) > 700:
        return f"{target} = {d.scalar(x)}"
    sizes = tuple([1 if d.chance(0.3) else size for size in shape])
    value = d.new(sizes, d.dtype_name(x) if d.chance(0.8) else d.dtype("any"))
    return f"{target} {d.pick(('=', '=', '+='))} {value}"


def _gather(d: Draw) -> str:
    x = d.value(least=1, filled=True)
    dim = d.random.randrange(d.rank(x))
    size = d.shape(x)[dim]
    sizes = [d.random.randrange(own + 1) for own in d.shape(x)]
    sizes[dim] = d.random.randrange(6)
    index = d.indices(tuple(sizes), size)
    line = d.indices((d.pick((0, 1, 3)),), size)
    full = d.indices(tuple([own if at != dim else 2 for at, own in enumerate(d.shape(x))]), size)
    ways = (
        f"torch.gather({x}, {dim}, {index})",
        f"{x}.index_select({dim}, {line})",
        f"torch.take_along_dim({x}, {full}, {dim})",
    )
    return d.pick(ways)


def _scatter(d: Draw) -> str:
    x = d.value(least=1, filled=True)
    dim = d.random.randrange(d.rank(x))
    size = d.shape(x)[dim]
    sizes = [d.random.randrange(own + 1) for own in d.shape(x)]
    sizes[dim] = d.random.randrange(4)
    source = d.new(tuple(sizes), d.dtype_name(x))
    index = d.indices(tuple(sizes), size)
    rows = d.pick((0, 1, 3))
    line = d.indices((rows,), size)
    block = d.new(tuple([rows if at == dim else own for at, own in enumerate(d.shape(x))]), d.dtype_name(x))
    unique = d.new(tuple([min(own, 1) if at == dim else own for at, own in enumerate(d.shape(x))]), "int64",
                   lambda count: d.numbers.integers(0, size, count))  # fmt: skip
    ways = (
        f"torch.scatter_add({x}, {dim}, {index}, {source})",
        f"{x}.scatter({dim}, {unique}, {d.scalar(x)})",
        f"{x}.index_add({dim}, {line}, {block})",
        f"{x}.index_add_({dim}, {line}, {block}, alpha=2)",
        f"{x}.scatter_({dim}, {unique}, {d.scalar(x)})",
    )
    return d.pick(ways)


def _scatter_views(d: Draw) -> str:
    x = d.value(least=2)
    dim = d.random.randrange(d.rank(x))
    size = d.shape(x)[dim]
    rest = tuple([own for at, own in enumerate(d.shape(x)) if at != dim])
    if d.chance(0.5) and size:
        return f"torch.select_scatter({x}, {d.new(rest, d.dtype_name(x))}, {dim}, {d.random.randrange(size)})"
    start = d.random.randrange(size + 1)
    shape = tuple([size - start if at == dim else own for at, own in enumerate(d.shape(x))])
    if d.chance(0.5):
        return f"torch.slice_scatter({x}, {d.new(shape, d.dtype_name(x))}, {dim}, {start})"
    diagonal = d.live[x].diagonal()
    return f"torch.diagonal_scatter({x}, {d.new(tuple(diagonal.shape), d.dtype_name(x))})"


def _one_hot(d: Draw) -> str:
    x = d.new(d.small_shape(d.pick((0, 1, 2))), "int64", lambda count: d.numbers.integers(0, 5, count))
    if d.chance(0.5):
        return f"F.one_hot({x}, 6)"
    table = d.new((5, d.pick((1, 3))), d.dtype("float"))
    return f"F.embedding({x}, {table}{d.pick(('', ', padding_idx=1'))})"


def _as_strided(d: Draw) -> str:
    x = d.value()
    count = d.live[x].untyped_storage().nbytes() // d.live[x].element_size()
    shape = (d.pick((1, 2, 3)), d.pick((1, 2)))
    strides = (d.pick((0, 1, 2)), d.pick((0, 1, 3)))
    if count < 10:
        shape, strides = (min(count, 1),), (1,)
    return f"{x}.as_strided({shape}, {strides}{d.pick(('', ', 0', ', 1' if count >= 10 else ', 0'))})"


def _create(d: Draw) -> str:
    shape = d.small_shape(d.random.randrange(4))
    dtype = d.pick(d.dtypes)
    whole = DTYPES[dtype].kind in "iub"
    number = d.pick((0, 1, 3)) if whole else d.pick((0.5, -2, "float('inf')", 3))
    ways = [
        f"torch.zeros({shape}, dtype=torch.{dtype})", f"torch.ones({shape}, dtype=torch.{dtype})",
        f"torch.full({shape}, {number}, dtype=torch.{dtype})", f"torch.full({shape}, {number})",
        f"torch.arange({d.random.randrange(20)})",
        f"torch.arange({d.pick((0, 1, -3))}, {d.pick((0, 5, 7.5))}, {d.pick((1, 2, 0.5))})",
        f"torch.linspace({d.pick((0, -1.5))}, {d.pick((1, 4))}, {d.pick((0, 1, 2, 7))})",
        f"torch.eye({d.pick((0, 1, 3))}, {d.pick((0, 2, 5))}, dtype=torch.{dtype})",
        f"torch.tril_indices({d.pick((0, 3))}, {d.pick((1, 4))}, {d.pick((0, 1, -1))})",
        f"torch.triu_indices(3, 4, {d.pick((0, 1, -1))})",
        f"torch.scalar_tensor({number})", f"torch.tensor({number}, dtype=torch.{dtype})",
        f"torch.tensor([[1, 2.5], [3, {number}]])",
    ]  # fmt: skip
    return d.pick(ways)


def _create_like(d: Draw) -> str:
    x = d.value()
    ways = (
        f"torch.zeros_like({x})", f"torch.ones_like({x}, dtype=torch.{d.dtype('any')})",
        f"torch.full_like({x}, {d.scalar(x)})",
        f"{x}.new_zeros(2, 3)", f"{x}.new_ones((3,))", f"{x}.new_full((2,), {d.scalar(x)})",
        f"{x}.new_tensor([1, 2])",
        f"torch.empty_like({x}).zero_()", f"{x}.detach()", f"{x}.clone()", f"torch.as_tensor({x})",
    )  # fmt: skip
    return d.pick(ways)


def _asked(d: Draw) -> str:
    x = d.value()
    ways = [f"{x}.dim()", f"{x}.numel()", f"{x}.is_floating_point()", f"{x}.is_complex()", f"{x}.element_size()",
            f"{x}.tolist()",
            f"tuple({x}.shape)", f"{x}.is_contiguous()", f"{x}.nbytes", f"torch.is_tensor({x})"]  # fmt: skip
    if d.live[x].numel() == 1:
        ways.append(f"{x}.item()")
    return d.pick(ways)


SHAPING: dict[str, CallMaker] = {
    "reshape": _reshape, "permute": _permute, "permute 2": _permute, "squeeze": _squeeze, "squeeze 2": _squeeze,
    "expand": _expand, "flatten": _flatten, "unflatten": _unflatten, "part": _part, "part 2": _part, "part 3": _part,
    "diagonal": _diagonal, "repeat": _repeat, "repeat 2": _repeat, "join": _join, "join 2": _join, "grid": _grid,
    "index": _index, "index 2": _index, "index 3": _index, "assign": _assign, "assign 2": _assign, "gather": _gather,
    "gather 2": _gather, "scatter": _scatter, "scatter 2": _scatter, "scatter views": _scatter_views,
    "one_hot": _one_hot, "as_strided": _as_strided, "create": _create, "create 2": _create, "like": _create_like,
    "asked": _asked,
}  # fmt: skip
"""Forms by name; a form under several names is drawn more often."""
