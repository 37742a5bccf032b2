"""Kernels as text: readable, canonical, and different whenever the code would be."""

from tests.codegen.kernel_oracle import buffer, kernel, loop, parallel, vector

from rushlight.ir.dtype import float32, float64
from rushlight.ir.kernel import Barrier, Store
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.scalar import BLOCKED, LANES, Order, load, reduce
from rushlight.sym import axis_symbol, size_of_code


def row_kernel(names="imn", order=LANES, kind="sum", dtype=float32, make=parallel, where=False, extra=0, one=False):
    """Rows minus their sums; names of everything vary with `names`."""
    m, n = size_of_code(names[1]), size_of_code(names[2])
    i, j, k = axis_symbol(m, names[0]), axis_symbol(n, "j" + names), axis_symbol(n, "k")
    if one:
        k = j
    x, out = buffer("x" + names, dtype), buffer("out" + names, dtype)
    total = reduce(kind, (k,), load(x, i * n + k), order)
    value = load(x, i * n + j + extra) - total
    return kernel(make(i, Barrier(), vector(j, Store(out, i * n + j, value, where=total < 0.0 if where else None))))


def test_text_reads_well(golden):
    golden("row.kernel", kernel_text(row_kernel()))


def test_names_do_not_matter():
    assert kernel_text(row_kernel()) == kernel_text(row_kernel("abc"))


def test_everything_else_matters():
    changes = [
        {},
        {"order": BLOCKED},
        {"order": Order(4096, 16, 256)},
        {"kind": "max"},
        {"dtype": float64},
        {"make": loop},
        {"where": True},
        {"extra": 1},
        {"one": True},
    ]
    texts = [kernel_text(row_kernel(**change)) for change in changes]
    assert len(set(texts)) == len(texts)
