"""Common operators in PyTorch's API that the other programs do not have."""

from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight.bench.programs.pytorch_ops import Function, Modes, plain

F = rl.nn.functional
LARGEST = 10  # elements of a row that `topk` keeps

FUNCTIONS: dict[str, Callable[[Modes], Function]] = {
    "mul": plain(lambda x, y: x * y),
    "div": plain(lambda x, y: x / y),
    "abs": plain(lambda x: x.abs()),
    "clamp": plain(lambda x: x.clamp(-1.0, 1.0)),
    "relu": plain(lambda x: F.relu(x)),
    "exp": plain(lambda x: x.exp()),
    "sin": plain(lambda x: x.sin()),
    "tanh": plain(lambda x: x.tanh()),
    "sigmoid": plain(lambda x: x.sigmoid()),
    "gelu": plain(lambda x: F.gelu(x)),
    "log": plain(lambda x: x.log()),
    "pow": plain(lambda x, y: x**y),
    "sum": plain(lambda x: x.sum()),
    "mean": plain(lambda x: x.mean(-1)),
    "amax": plain(lambda x: x.amax(-1)),
    "var": plain(lambda x: x.var(-1)),
    "norm": plain(lambda x: x.norm()),
    "logsumexp": plain(lambda x: x.logsumexp(-1)),
    "max_dim0": plain(lambda x: tuple(x.max(0))),
    "argmax": plain(lambda x: x.argmax()),
    "cumsum": plain(lambda x: x.cumsum(0)),
    "cumsum_rows": plain(lambda x: x.cumsum(-1)),
    "cumprod": plain(lambda x: x.cumprod(-1)),
    "logcumsumexp": plain(lambda x: x.logcumsumexp(-1)),
    "sort": plain(lambda x: tuple(x.sort())),
    "sort_rows": plain(lambda x: tuple(x.sort(-1))),
    "topk": plain(lambda x: tuple(x.topk(LARGEST, -1))),
    "searchsorted": plain(lambda edges, x: rl.searchsorted(edges, x)),
    "unique": plain(lambda x: x.unique()),
    "median": plain(lambda x: x.median()),
    "where": plain(lambda mask, x, y: rl.where(mask, x, y)),
    "gather": plain(lambda x, index: x.gather(1, index)),
    "index_select": plain(lambda x, index: x.index_select(0, index)),
    "index": plain(lambda x, index: x[index]),
    "masked_select": plain(lambda mask, x, y: x[mask]),
    "masked_fill": plain(lambda mask, x, y: x.masked_fill(mask, 0.0)),
    "nonzero": plain(lambda mask, x, y: mask.nonzero()),
    "scatter_add": plain(lambda x, index, y: x.scatter_add(0, index, y)),
    "bmm": plain(lambda a, b: rl.bmm(a, b)),
    "log_softmax": plain(lambda x: F.log_softmax(x, -1)),
    "batch_norm": plain(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
    "cat": plain(lambda x, y: rl.cat([x, y])),
    "flip": plain(lambda x: x.flip(0, 1)),
    "transpose_copy": plain(lambda x: x.t().contiguous()),
}
