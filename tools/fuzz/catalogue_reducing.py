"""Forms of calls of reductions, scans, searches and orders."""

from __future__ import annotations

from tools.fuzz.catalogue_pointwise import CallMaker
from tools.fuzz.drawing import Draw

_REDUCTIONS = {
    "sum": "any", "mean": "float", "amax": "real", "amin": "real", "all": "any", "any": "any", "logsumexp": "float",
    "std": "float", "var": "float", "count_nonzero": "any",
}  # fmt: skip
_ONE_DIM = {"prod": "any", "argmax": "ordered", "argmin": "ordered", "max": "real", "min": "real", "median": "ordered"}


def _reduction(name: str, kind: str) -> CallMaker:
    def form(d: Draw) -> str:
        x = d.value("any" if d.chance(0.1) else kind)
        keep = "" if name == "count_nonzero" else d.pick(("", ", keepdim=True", ", keepdim=False"))
        dtype = f", dtype=torch.{d.dtype('inexact')}" if name in ("sum", "mean") and d.chance(0.1) else ""
        if name in ("std", "var") and d.chance(0.4):
            dtype = d.pick((", correction=0", ", correction=2", ", unbiased=False"))
        if d.chance(0.3) and name not in ("logsumexp",):
            given = dtype.removeprefix(", ")
            return f"torch.{name}({x}{dtype})" if d.chance(0.5) else f"{x}.{name}({given})"
        dims = d.dim(x) if d.chance(0.5) else d.dims(x)
        return f"torch.{name}({x}, dim={dims}{keep}{dtype})" if d.chance(0.5) else f"{x}.{name}({dims}{keep}{dtype})"

    return form


def _one_dim(name: str, kind: str) -> CallMaker:
    def form(d: Draw) -> str:
        x = d.value("any" if d.chance(0.1) else kind)
        if d.chance(0.3):
            return f"{x}.{name}()" if d.chance(0.5) else f"torch.{name}({x})"
        keep = d.pick(("", ", keepdim=True"))
        dim = d.dim(x)
        return f"torch.{name}({x}, {dim}{keep})" if d.chance(0.5) else f"{x}.{name}(dim={dim}{keep})"

    return form


def _var_mean(d: Draw) -> str:
    x = d.value("float")
    dim = f", dim={d.dim(x)}"
    rest = d.pick(("", dim, f", {d.dims(x)}, keepdim=True", ", unbiased=False", f"{dim}, correction=0"))
    return f"torch.var_mean({x}{rest})"


def _norm(d: Draw) -> str:
    x = d.value("float")
    order = d.pick(("2", "1", "float('inf')", "-float('inf')", "0", "3", "0.5", "'fro'"))
    return d.pick(
        (
            f"{x}.norm()",
            f"{x}.norm({order})",
            f"torch.norm({x}, {order}, dim={d.dim(x)})",
            f"torch.norm({x}, p={order}, dim={d.dims(x)}, keepdim=True)",
        )
    )


def _normalize(d: Draw) -> str:
    x = d.value("float", least=1)
    return (
        f"F.normalize({x}{d.pick(('', f', dim={d.dim(x)}', ', p=1.0', ', eps=0.5'))})"
        if d.rank(x) > 1
        else f"F.normalize({x}, dim=0)"
    )


def _cosine(d: Draw) -> str:
    x = d.value("float", least=1)
    return f"F.cosine_similarity({x}, {d.broadcast(x, 'float')}, dim={d.dim(x)})"


def _softmax(d: Draw) -> str:
    x, name = d.value("float"), d.pick(("softmax", "log_softmax", "softmin"))
    dtype = d.pick(("", "", f", dtype=torch.{d.dtype('float')}"))
    if name == "softmin" or d.chance(0.4):
        return f"F.{name}({x}, dim={d.dim(x)}{dtype})"
    return f"{x}.{name}({d.dim(x)}{dtype})"


def _scan(d: Draw) -> str:
    x = d.value()
    dtype = d.pick(("", "", "", f", dtype=torch.{d.dtype('number')}"))
    return f"torch.{d.pick(('cumsum', 'cumprod'))}({x}, {d.dim(x)}{dtype})"


def _sort(d: Draw) -> str:
    x = d.value("real" if d.chance(0.9) else "any")
    extra = d.pick(("", ", descending=True", ", stable=True"))
    if d.chance(0.2):
        return f"torch.msort({x})"
    name = d.pick(("sort", "argsort"))
    return f"torch.{name}({x}, dim={d.dim(x)}{extra})"


def _topk(d: Draw) -> str:
    x = d.value("ordered", least=1)
    dim = d.random.randrange(d.rank(x))
    k = d.random.randrange(d.shape(x)[dim] + 1) + d.chance(0.02)
    if d.chance(0.3) and d.shape(x)[dim]:
        return f"torch.kthvalue({x}, {max(k, 1)}, dim={dim}{d.pick(('', ', keepdim=True'))})"
    return f"{x}.topk({k}, dim={dim}{d.pick(('', ', largest=False'))})"


def _quantile(d: Draw) -> str:
    x = d.value("wide", filled=True)
    way = d.pick(
        (
            "",
            ", interpolation='lower'",
            ", interpolation='nearest'",
            ", interpolation='midpoint'",
            ", interpolation='higher'",
        )
    )
    dim = d.pick(("", f", dim={d.dim(x)}", f", dim={d.dim(x)}, keepdim=True"))
    levels = d.pick(("0.5", "0.3", "1.0", "0.0"))
    if d.chance(0.3):
        levels = f"torch.tensor([0.25, 0.9], dtype=torch.{d.dtype_name(x)})"
    return f"torch.quantile({x}, {levels}{dim}{way})"


def _search(d: Draw) -> str:
    x = d.value("any")
    return d.pick(
        (
            f"torch.nonzero({x})",
            f"{x}.nonzero()",
            f"torch.argwhere({x})",
            f"torch.nonzero({x}, as_tuple=True)",
            f"torch.unique({x})",
            f"torch.unique({x}, return_inverse=True, return_counts=True)",
        )
    )


def _sorted_search(d: Draw) -> str:
    edges = d.new((d.random.randrange(7),), "float32", lambda count: d.numbers.integers(-4, 5, count).cumsum() / 2 - 3)
    edges = f"{edges}.contiguous().sort().values"
    x = d.value("ordered")
    right = d.pick(("", ", right=True"))
    return d.pick((f"torch.bucketize({x}, {edges}{right})", f"torch.searchsorted({edges}, {x}{right})"))


def _bincount(d: Draw) -> str:
    x = d.new((d.pick((0, 1, 5, 17)),), d.dtype("integer"), lambda count: d.numbers.integers(0, 6, count))
    weights = f", weights={d.new(d.shape(x), d.dtype('ordered'))}" if d.chance(0.4) else ""
    return f"torch.bincount({x}{weights}{d.pick(('', ', minlength=9'))})"


def _cummulative_logic(d: Draw) -> str:
    x = d.value()
    return d.pick((f"torch.all({x})", f"{x}.any({d.dim(x)})", f"torch.count_nonzero({x}, {d.dim(x)})"))


REDUCING: dict[str, CallMaker] = {
    **{name: _reduction(name, kind) for name, kind in _REDUCTIONS.items()},
    **{name: _one_dim(name, kind) for name, kind in _ONE_DIM.items()},
    "var_mean": _var_mean, "norm": _norm, "normalize": _normalize, "cosine_similarity": _cosine, "softmax": _softmax,
    "cumsum": _scan, "sort": _sort, "topk": _topk, "quantile": _quantile, "nonzero": _search,
    "bucketize": _sorted_search,
    "bincount": _bincount, "all any": _cummulative_logic, "sum 2": _reduction("sum", "any"),
}  # fmt: skip
"""Forms by name."""
