"""Loads and stores with masks, sums into memory, products, ranges, and what they refuse."""

import pytest

import rushlight as rl
from rushlight.tile import atomic_add, atomic_max, atomic_min, cdiv, dot, kernel, load, register_block_size, store, tile


@kernel
def picked(x, places):
    out = rl.empty(places.shape[0], x.shape[1])
    for i, j in tile(places.shape[0], x.shape[1]):
        out[i, j] = x[places[i], j]
    return out


@kernel
def picked_inside(x, places):
    """Rows that exist, -1 for others."""
    out = rl.empty(places.shape[0])
    for i in tile(places.shape[0]):
        where = places[i]
        out[i] = load(x, where, mask=(where >= 0) & (where < x.shape[0]), other=-1)
    return out


@kernel
def placed(x, places, inside):
    out = rl.zeros(4)
    for i in tile(x.shape[0]):
        store(out, places[i], x[i], mask=inside[i])
    return out


@kernel
def histogram(places):
    counts = rl.zeros(5, dtype=rl.int64)
    for i in tile(places.shape[0]):
        atomic_add(counts, places[i], rl.ones(i.size, dtype=rl.int64), mask=places[i] >= 0)
    return counts


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_masks_keep_places_inside(compiled: bool):
    x, places = rl.arange(4).float() + 1, rl.tensor([3, -7, 0, 99, 1])

    def run(function, *args):
        return (rl.compile(lambda *args: function(*args), fullgraph=True) if compiled else function)(*args).tolist()

    assert run(picked_inside, x, places) == [4.0, -1.0, 1.0, -1.0, 2.0]
    inside = rl.tensor([True, False, True, False, True])
    assert run(placed, rl.arange(5).float() + 1, places, inside) == [3.0, 5.0, 0.0, 1.0]
    assert run(histogram, rl.tensor([0, 4, -1, 4, 2, -9])) == [1, 0, 1, 0, 2]


@pytest.mark.row("7.7")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_an_index_out_of_range_is_an_error_at_its_line(compiled: bool):
    run = rl.compile(lambda *args: picked(*args), fullgraph=True) if compiled else picked
    x = rl.randn(3, 4)
    assert rl.equal(run(x, rl.tensor([2, -1])), x[[2, -1]])
    for wrong in (3, -4):
        with pytest.raises(rl.RushlightError) as caught:
            run(x, rl.tensor([0, wrong]))
        assert "out[i, j] = x[places[i], j]" in str(caught.value)


def test_extremes_and_bounds_of_ranges():
    @kernel
    def extremes(x):
        high, low = rl.full((3,), -9.0), rl.full((3,), 9.0)
        for i, j in tile((1, x.shape[0]), x.shape[1]):
            atomic_max(high, j, x[i, j].amax(0))
            atomic_min(low, j, x[i, j].amin(0))
        return high, low

    x = rl.randn(5, 3)
    high, low = extremes(x)
    assert rl.equal(high, x[1:].amax(0)) and rl.equal(low, x[1:].amin(0))
    assert extremes(rl.randn(1, 3))[0].tolist() == [-9.0] * 3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8"])
def test_dot_sums_narrow_numbers_in_wide_ones(dtype: str):
    @kernel
    def product(a, b):
        out = rl.empty(a.shape[0], b.shape[1], dtype=rl.int32 if a.dtype is rl.int8 else rl.float32)
        for i, j in tile(a.shape[0], b.shape[1]):
            out[i, j] = dot(a[i, :], b[:, j])
        return out

    a, b = ((rl.randn(*shape) * 4).to(getattr(rl, dtype)) for shape in ((5, 70), (70, 3)))
    found, expected = product(a, b), a.double() @ b.double()
    assert (found.double() - expected).abs().max().item() < (1e-9 if dtype == "int8" else 1e-3)


def test_scans_and_calls_of_other_kernels():
    @kernel
    def running(x):
        out = rl.empty_like(x)
        for i in tile(x.shape[0]):
            out[i] = x[i].cumsum(1)
        return out

    @kernel
    def twice(x):
        return running(running(x) * 2)

    x = rl.randn(4, 6)
    assert rl.allclose(twice(x), (x.cumsum(1) * 2).cumsum(1))


def test_sizes_of_blocks():
    assert cdiv(7, 2) == 4 and repr(register_block_size(8)) == "block of 1 to 8"
    assert [step.size for step in tile(5, block=register_block_size(2, 64))] == [5]
    assert list(tile(5, (3, 3))) == []


@pytest.mark.parametrize(
    ("code", "run"),
    [
        ("L003", lambda: list(tile())),
        ("L003", lambda: list(tile(True))),
        ("L003", lambda: list(tile(4, block=0))),
        ("L003", lambda: list(tile(4, 5, block=[8]))),
        ("L003", lambda: register_block_size(0, 8)),
        ("L004", lambda: dot(rl.ones(2, 2), 3)),
        ("L004", lambda: atomic_max(rl.ones(3), rl.tensor([1]), rl.ones(1))),
        ("L004", lambda: picked(rl.ones(2, 2))),
    ],
)
def test_what_is_malformed_has_an_error(code: str, run):
    with pytest.raises(rl.RushlightError) as caught:
        run()
    assert caught.value.code == code


def test_what_the_host_computes_is_refused():
    @kernel
    def ordered(x):
        return x.sort()[0]

    with pytest.raises(rl.RushlightError) as caught:
        ordered(rl.randn(4))
    assert caught.value.code == "L002" and "x.sort()" in str(caught.value)


@kernel
def means(x, offsets, weights):
    out = rl.empty(offsets.shape[0] - 1)
    for b in tile(offsets.shape[0] - 1):
        for k in tile(offsets[b], offsets[b + 1]):
            weighted = (x[k] * weights[k] - 1) / 2 + x[k].map(rl.abs)
            out[b] = weighted.mean(1)
    return out


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_jagged_ranges(compiled: bool):
    x, weights, offsets = rl.randn(7), rl.randn(7), rl.tensor([0, 2, 3, 7])
    run = rl.compile(lambda *args: means(*args), fullgraph=True) if compiled else means
    members = (x * weights - 1) / 2 + x.abs()
    expected = [members[:2].mean(), members[2:3].mean(), members[3:].mean()]
    assert rl.allclose(run(x, offsets, weights), rl.stack(expected))


def test_a_jagged_range_is_of_neighbours():
    @kernel
    def wrong(x, offsets):
        out = rl.zeros(offsets.shape[0] - 2)
        for b in tile(offsets.shape[0] - 2):
            for k in tile(offsets[b], offsets[b + 2]):
                out[b] = x[k].sum(1)
        return out

    with pytest.raises(rl.RushlightError) as caught:
        wrong(rl.randn(4), rl.tensor([0, 1, 2, 4]))
    assert caught.value.code == "L003" and "tile(offsets[b], offsets[b + 2])" in str(caught.value)
