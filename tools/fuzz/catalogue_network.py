"""Forms of calls of products, convolutions, pooling, norms, losses and attention."""

from __future__ import annotations

from tools.fuzz.catalogue_pointwise import CallMaker
from tools.fuzz.drawing import Draw


def _mm(d: Draw) -> str:
    x = d.value("number", rank=2)
    rows, inner = d.shape(x)
    y = d.new((inner, d.pick((0, 1, 2, 5, 9))), d.dtype_name(x))
    columns = d.shape(y)[1]
    bias = d.new(d.pick(((rows, columns), (columns,), (1, columns), ())), d.dtype_name(x))
    scaled = d.pick(("", ", beta=2, alpha=3", ", beta=0"))
    return d.pick(
        (
            f"torch.mm({x}, {y})",
            f"{x} @ {y}",
            f"torch.addmm({bias}, {x}, {y}{scaled})",
            f"torch.matmul({x}, {y})",
            f"F.linear({x}, {y}.t())",
        )
    )


def _bmm(d: Draw) -> str:
    x = d.value("inexact", rank=3)
    batch, rows, inner = d.shape(x)
    y = d.new((batch, inner, d.pick((1, 3))), d.dtype_name(x))
    bias = d.new((batch, rows, d.shape(y)[2]), d.dtype_name(x))
    return d.pick(
        (
            f"torch.bmm({x}, {y})",
            f"{x} @ {y}",
            f"torch.baddbmm({bias}, {x}, {y}{d.pick(('', ', alpha=2, beta=3'))})",
            f"torch.einsum('bij,bjk->bik', {x}, {y})",
            f"torch.einsum('bij,bjk->ik', {x}, {y})",
        )
    )


def _mv(d: Draw) -> str:
    x = d.value("number", rank=2)
    y = d.new((d.shape(x)[1],), d.dtype_name(x))
    z = d.new((d.shape(x)[0],), d.dtype_name(x))
    return d.pick(
        (
            f"torch.mv({x}, {y})",
            f"{x} @ {y}",
            f"{z} @ {x}",
            f"torch.outer({y}, {z})",
            f"torch.dot({y}, {y})",
            f"torch.einsum('ij,j->i', {x}, {y})",
            f"torch.einsum('ij->j', {x})",
            f"torch.einsum('ii->i', {x} @ {x}.t())",
        )
    )


def _matmul(d: Draw) -> str:
    x = d.value("float", least=2)
    inner = d.shape(x)[-1]
    batch = tuple([1 if d.chance(0.4) else size for size in d.shape(x)[:-2]])
    y = d.new((*batch[d.random.randrange(len(batch) + 1) :], inner, d.pick((0, 1, 4))), d.dtype_name(x))
    return f"torch.matmul({x}, {y})"


def _linear(d: Draw) -> str:
    x = d.value("float", least=1)
    out = d.pick((1, 3))
    weight = d.new((out, d.shape(x)[-1]), d.dtype_name(x))
    bias = f", {d.new((out,), d.dtype_name(x))}" if d.chance(0.5) else ""
    return f"F.linear({x}, {weight}{bias})"


def _conv(d: Draw) -> str:
    spatial, groups = d.pick((1, 1, 2, 2, 3)), d.pick((1, 1, 2))
    dtype = d.dtype("float")
    inside, out = groups * d.pick((1, 2)), groups * d.pick((1, 3))
    kernel = tuple([d.pick((1, 2, 3)) for _ in range(spatial)])
    sizes = tuple([size + d.pick((0, 1, 3)) for size in kernel])
    x = d.new((d.pick((1, 2, 0) if d.chance(0.2) else (1, 2)), inside, *sizes), dtype)
    transposed = d.chance(0.3)
    weight = d.new((inside, out // groups, *kernel) if transposed else (out, inside // groups, *kernel), dtype)
    bias = f", {d.new((out,), dtype)}" if d.chance(0.5) else ", None"
    if transposed:
        stride = d.pick((1, 2))
        extra = d.pick(
            ("", ", output_padding=1" if stride == 2 else "", ", dilation=2", ", output_padding=2, dilation=3")
        )
        rest = f"stride={stride}, padding={d.pick((0, 0, 1))}, groups={groups}{extra}"
        return f"F.conv_transpose{spatial}d({x}, {weight}{bias}, {rest})"
    padding = d.pick((0, 1, "'same'", "'valid'"))
    stride = 1 if padding == "'same'" else d.pick((1, 2))
    rest = f"stride={stride}, padding={padding}, dilation={d.pick((1, 1, 2))}, groups={groups}"
    return f"F.conv{spatial}d({x}, {weight}{bias}, {rest})"


def _pool(d: Draw) -> str:
    spatial = d.pick((1, 2, 3))
    sizes = tuple([d.pick((1, 3, 4, 5, 7)) for _ in range(spatial)])
    x = d.new((*d.pick(((2, 3), (1, 1), (2,))), *sizes), d.dtype("float"))
    kernel = d.random.randrange(1, min(sizes) + 1)
    if d.chance(0.35):
        return f"F.adaptive_avg_pool{spatial}d({x}, {d.pick((1, 2, 3))})"
    stride, padding = d.pick((1, 2, kernel)), d.pick((0, kernel // 2))
    if d.chance(0.5):
        extra = d.pick(("", ", ceil_mode=True", ", count_include_pad=False"))
        return f"F.avg_pool{spatial}d({x}, {kernel}, {stride}, {padding}{extra})"
    extra = d.pick(("", ", ceil_mode=True", ", return_indices=True", ", dilation=1"))
    return f"F.max_pool{spatial}d({x}, {kernel}, {stride}, {padding}{extra})"


def _normed(d: Draw) -> str:
    x = d.new((d.pick((1, 2, 3)), d.pick((2, 4)), *d.pick(((), (3,), (2, 5), (1,)))), d.dtype("float"))
    channels, dtype, last = d.shape(x)[1], d.dtype_name(x), d.shape(x)[-1]
    weight, bias = d.new((channels,), dtype), d.new((channels,), dtype)
    own, other = d.new((last,), dtype), d.new((last,), dtype)
    mean = d.new((channels,), dtype)
    ways = [
        f"F.layer_norm({x}, ({last},))", f"F.layer_norm({x}, ({last},), {own}, {other})",
        f"F.rms_norm({x}, ({last},), {own})",
        f"F.group_norm({x}, {d.pick((1, 2))}, {weight}, {bias})", f"F.group_norm({x}, 2, eps=0.1)",
        f"F.batch_norm({x}, {mean}, {bias}.abs(), {weight}, {bias})",
        f"F.batch_norm({x}, None, None, {weight}, {bias}, training=True)",
    ]  # fmt: skip
    if d.rank(x) > 2:
        ways.append(f"F.instance_norm({x})")
    return d.pick(ways)


def _pad(d: Draw) -> str:
    x = d.value("number" if d.chance(0.8) else "any", least=1)
    mode = d.pick(("constant", "constant", "reflect", "replicate", "circular"))
    if mode == "constant":
        amounts = [d.pick((0, 1, 2, -1)) for _ in range(2 * d.random.randrange(1, d.rank(x) + 1))]
        value = d.pick(("", f", value={d.scalar(x)}", ", mode='constant'"))
        return f"F.pad({x}, {tuple(amounts)}{value})"
    x = d.new((*d.pick(((2,), (1, 2))), *d.pick(((4,), (3, 5)))), d.dtype("float"))
    spatial = d.rank(x) - d.pick((1, 2)) if d.rank(x) > 2 else 1
    amounts = [d.pick((0, 1, 2, -1) if mode == "circular" else (0, 1, 2)) for _ in range(2 * spatial)]
    return f"F.pad({x}, {tuple(amounts)}, mode='{mode}')"


def _interpolate(d: Draw) -> str:
    spatial = d.pick((1, 2))
    x = d.new((d.pick((1, 2)), 2, *[d.pick((1, 3, 4)) for _ in range(spatial)]), d.dtype("float"))
    mode = d.pick(("nearest", "linear" if spatial == 1 else "bilinear", "nearest-exact", "area"))
    size = d.pick((f"size={d.pick((1, 2, 5))}", "scale_factor=2", "scale_factor=1.5"))
    aligned = ", align_corners=True" if "linear" in mode and d.chance(0.5) else ""
    return f"F.interpolate({x}, {size}, mode='{mode}'{aligned})"


def _loss(d: Draw) -> str:
    x = d.value("float")
    y = d.like(x)
    reduction = d.pick(("", ", reduction='sum'", ", reduction='none'", ", reduction='mean'"))
    probable = f"{x}.sigmoid()"
    ways = (
        f"F.mse_loss({x}, {y}{reduction})", f"F.l1_loss({x}, {y}{reduction})",
        f"F.smooth_l1_loss({x}, {y}, beta=0.5{reduction})",
        f"F.huber_loss({x}, {y}, delta=0.5{reduction})", f"F.kl_div({x}, {y}.softmax(-1){reduction})",
        f"F.kl_div({x}, {y}, log_target=True{reduction})",
        f"F.binary_cross_entropy_with_logits({x}, {y}.sigmoid(){reduction})",
        f"F.binary_cross_entropy({probable}, {y}.sigmoid(){reduction})",
    )  # fmt: skip
    return d.pick(ways)


def _classes(d: Draw) -> str:
    rest = d.pick(((), (3,), (2, 2)))
    classes = d.pick((1, 3, 5))
    x = d.new((d.pick((1, 2, 4)), classes, *rest), d.dtype("float"))
    target = d.indices((d.shape(x)[0], *rest), classes)
    reduction = d.pick(("", ", reduction='sum'", ", reduction='none'"))
    weight = f", weight={d.new((classes,), d.dtype_name(x))}.abs()" if d.chance(0.3) else ""
    if d.chance(0.4):
        return f"F.nll_loss(F.log_softmax({x}, 1), {target}{weight}{reduction}{d.pick(('', ', ignore_index=0'))})"
    return (
        f"F.cross_entropy({x}, {target}{weight}{reduction}{d.pick(('', ', label_smoothing=0.2', ', ignore_index=1'))})"
    )


def _attention(d: Draw) -> str:
    batch = d.pick(((2,), (1, 2), (2, 3)))
    dtype, width, keys, queries = d.dtype("float"), d.pick((1, 4, 5)), d.pick((1, 3, 6)), d.pick((1, 2, 6))
    q, k, v = (d.new((*batch, size, width), dtype) for size in (queries, keys, keys))
    mask = d.pick(("", ", is_causal=True", f", attn_mask={d.new((queries, keys), dtype)}", ", scale=0.5"))
    return f"F.scaled_dot_product_attention({q}, {k}, {v}{mask})"


def _bag(d: Draw) -> str:
    table = d.new((6, d.pick((1, 3))), d.dtype("wide"))
    x = d.indices((d.pick((1, 3)), d.pick((1, 4))), 6)
    return f"F.embedding_bag({x}, {table}, mode='{d.pick(('sum', 'mean', 'max'))}')"


def _dropout(d: Draw) -> str:
    return f"F.dropout({d.value('float')}, {d.pick(('0.0', '1.0', '0.5, training=False'))})"


NETWORK: dict[str, CallMaker] = {
    "mm": _mm, "mm 2": _mm, "bmm": _bmm, "mv": _mv, "mv 2": _mv, "matmul": _matmul, "linear": _linear, "conv": _conv,
    "conv 2": _conv, "pool": _pool, "pool 2": _pool, "normed": _normed, "normed 2": _normed, "pad": _pad, "pad 2": _pad,
    "interpolate": _interpolate, "loss": _loss, "loss 2": _loss, "classes": _classes, "attention": _attention,
    "embedding_bag": _bag, "dropout": _dropout,
}  # fmt: skip
"""Forms by name; a form under several names is drawn more often."""
