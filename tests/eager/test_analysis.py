"""Sequences, slopes, quantiles, histograms and segments, against what PyTorch computes."""

import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError

NAN, INF = float("nan"), float("inf")
ROWS = [[1.0, NAN, 3.0, 2.0], [NAN, NAN, NAN, NAN], [4.0, 1.0, 2.0, 8.0]]
SQUARES = [1.0, 4.0, 9.0, 16.0]


def gaps():
    return rl.tensor(ROWS)


def grid():
    return rl.arange(12.0).reshape(3, 4) ** 2


def points():
    return rl.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [2.0, 1.5]])


def values():
    return rl.tensor([1.0, 2.0, 1.0, 4.0])


def segments(reduce, **named):
    named = named or {"lengths": rl.tensor([2, 0, 4])}
    return rl.segment_reduce(rl.arange(12.0).reshape(6, 2), reduce, **named)


CASES = [
    (lambda: rl.logspace(0, 2, 3), [1.0, 10.0, 100.0]),
    (lambda: rl.logspace(0, 3, 4, dtype=rl.int64), [1, 10, 100, 1000]),
    (lambda: rl.logspace(1.9, rl.tensor(2.1), 3, dtype=rl.int64), [10, 31, 100]),
    (lambda: rl.logspace(rl.tensor(0.0), 2, 3, base=-2), [1.0, -2.0, 4.0]),
    (lambda: rl.range(0, 2, 0.5), [0.0, 0.5, 1.0, 1.5, 2.0]),
    (lambda: rl.range(4, 1, -1, dtype=rl.int64), [4, 3, 2, 1]),
    (lambda: rl.gradient(rl.tensor(SQUARES)), [[3.0, 4.0, 6.0, 7.0]]),
    (lambda: rl.gradient(rl.tensor(SQUARES), edge_order=2), [[2.0, 4.0, 6.0, 8.0]]),
    (lambda: rl.gradient(rl.tensor([1, 4, 9, 16]), spacing=2), [[1.5, 2.0, 3.0, 3.5]]),
    (
        lambda: rl.gradient(rl.tensor(SQUARES), spacing=(rl.tensor([0.0, 1, 3, 4]),)),
        [[3.0, 2.8333333, 5.5, 7.0]],
    ),
    (
        lambda: rl.gradient(rl.tensor(SQUARES), spacing=(rl.tensor([0.0, 1, 3, 4]),), edge_order=2),
        [[3.1666667, 2.8333333, 5.5, 8.5]],
    ),
    (lambda: rl.gradient(grid(), spacing=[2.0, 0.5])[1][1], [18.0, 20.0, 24.0, 26.0]),
    (lambda: rl.gradient(grid(), spacing=2.0, dim=(0, 1), edge_order=2)[0][0], [0.0, 4.0, 8.0, 12.0]),
    (lambda: rl.nanquantile(gaps(), 0.4, 1), [1.8, NAN, 2.4]),
    (lambda: rl.nanquantile(gaps(), 0.5), 2.0),
    (
        lambda: rl.nanquantile(gaps(), rl.tensor([0.1, 0.9]), -1, keepdim=True),
        [[[1.2], [NAN], [1.3]], [[2.8], [NAN], [6.8]]],
    ),
    (lambda: gaps().nanquantile(0.3, 0, interpolation="midpoint"), [2.5, 1.0, 2.5, 5.0]),
    (lambda: rl.nanquantile(gaps(), 0.3, 1, interpolation="nearest"), [2.0, NAN, 2.0]),
    (lambda: rl.nanquantile(gaps().double(), 0.25, 0, interpolation="lower"), [1.0, 1.0, 2.0, 2.0]),
    (lambda: rl.quantile(values(), rl.tensor([0.0, 0.5, 0.9])), [1.0, 1.5, 3.4]),
    (lambda: rl.quantile(values(), 0.9, interpolation="higher"), 4.0),
    (lambda: rl.histogram(values(), 4), [[2.0, 1.0, 0.0, 1.0], [1.0, 1.75, 2.5, 3.25, 4.0]]),
    (lambda: rl.histogram(values(), 4, range=(0.0, 3.0))[0], [0.0, 2.0, 1.0, 0.0]),
    (lambda: values().histogram(rl.tensor([0.0, 1, 2, 4])).hist, [0.0, 2.0, 2.0]),
    (lambda: rl.histogram(values(), 3, weight=rl.tensor([1.0, 2, 3, 4]), density=True)[0], [0.4, 0.2, 0.4]),
    (lambda: rl.histogram(rl.ones(3), 2), [[0.0, 3.0], [0.5, 1.0, 1.5]]),
    (lambda: rl.histogram(rl.tensor([1.0, NAN, 4.0]), 3, range=(0.0, 5.0))[0], [1.0, 0.0, 1.0]),
    (lambda: rl.histogramdd(points(), [2, 3])[0], [[0.0, 1.0, 0.0], [1.0, 0.0, 2.0]]),
    (lambda: rl.histogramdd(points(), [rl.tensor([0.0, 1, 2]), rl.tensor([0.0, 2])]).hist, [[1.0], [3.0]]),
    (
        lambda: rl.histogramdd(points(), [2, 2], range=[0.0, 1.0, 0.0, 1.0], weight=rl.tensor([1.0, 2, 3, 4]))[0],
        [[0.0, 1.0], [2.0, 0.0]],
    ),
    (lambda: segments("sum"), [[2.0, 4.0], [0.0, 0.0], [28.0, 32.0]]),
    (lambda: segments("mean"), [[1.0, 2.0], [NAN, NAN], [7.0, 8.0]]),
    (lambda: segments("max"), [[2.0, 3.0], [-INF, -INF], [10.0, 11.0]]),
    (lambda: segments("min", lengths=rl.tensor([2, 0, 4]), initial=3), [[0.0, 1.0], [3.0, 3.0], [3.0, 3.0]]),
    (lambda: segments("mean", lengths=rl.tensor([2, 0, 4]), initial=3), [[2.5, 3.5], [3.0, 3.0], [7.75, 8.75]]),
    (lambda: segments("prod", offsets=rl.tensor([0, 2, 6])), [[0.0, 3.0], [1920.0, 3465.0]]),
    (lambda: segments("sum", lengths=rl.tensor([2, 2]), unsafe=True), [[2.0, 4.0], [10.0, 12.0]]),
    (lambda: rl.empty_strided((2, 3), (1, 2), dtype=rl.int8).stride(), [1, 2]),
    (lambda: rl.empty_permuted((2, 3, 5), (2, 0, 1)).stride(), [3, 1, 6]),
    (lambda: rl.ones(1).new_empty_strided((2,), (3,)).stride(), [3]),
    (lambda: rl.poisson(rl.zeros(3)), [0.0, 0.0, 0.0]),
    (lambda: rl.binomial(rl.tensor([10.0, 5.0]), rl.tensor([1.0, 0.0])), [10.0, 0.0]),
    (lambda: rl.randint_like(rl.zeros(2), 3, 4), [3.0, 3.0]),
]


def plain(found):
    """Tensors as lists, in tuples too."""
    if isinstance(found, tuple):
        return [plain(part) for part in found]
    return found.tolist() if isinstance(found, rl.Tensor) else found


def near(expected, found):
    """Whether nested lists of numbers are close; NaN is close to NaN."""
    if not isinstance(expected, (list, tuple)):
        return found == pytest.approx(expected, rel=1e-5, nan_ok=True)
    return len(expected) == len(found) and all(map(near, expected, found))


@pytest.mark.parametrize(("function", "expected"), CASES)
def test_values_are_those_of_pytorch(function, expected):
    assert near(expected, plain(function()))


COMPILED = {
    "histc": (lambda x: rl.histc(x, 3), [1.0, 1.0, 2.0]),
    "histogram": (lambda x: rl.histogram(x, 3), [[1.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]]),
    "histogram of equal elements": (lambda x: rl.histogram(x * 0 + 1, 2), [[0.0, 4.0], [0.5, 1.0, 1.5]]),
    "histogramdd": (lambda x: rl.histogramdd(x.reshape(2, 2), [2, 1]).hist, [[1.0], [1.0]]),
}


@pytest.mark.parametrize("name", COMPILED)
def test_ends_that_elements_tell_stay_in_a_compiled_function(name):
    function, expected = COMPILED[name]
    x = rl.tensor([1.0, 2.0, 3.0, 4.0])
    compiled = rl.compile(function, fullgraph=True)
    assert near(expected, plain(function(x)))
    assert plain(compiled(x)) == plain(function(x))
    with pytest.raises(RushlightError) as error:
        compiled(x / 0)
    assert error.value.code == "R002"


def test_a_compiled_function_checks_its_segments_when_it_runs():
    compiled = rl.compile(lambda x, lengths: rl.segment_reduce(x, "sum", lengths=lengths), fullgraph=True)
    assert compiled(rl.arange(5.0), rl.tensor([2, 0, 3])).tolist() == [1.0, 0.0, 9.0]
    with pytest.raises(RushlightError) as error:
        compiled(rl.arange(5.0), rl.tensor([2, 0, 2]))
    assert error.value.code == "R002"


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("sum", [[8.0, 12.0], [8.0, 12.0], [24.0, 28.0], [24.0, 28.0]]),
        ("mean", [[2.0, 3.0], [2.0, 3.0], [6.0, 7.0], [6.0, 7.0]]),
        ("max", [[0.0, 0.0], [6.0, 8.0], [0.0, 0.0], [14.0, 16.0]]),
        ("prod", [[18.0, 64.0], [6.0, 32.0], [490.0, 768.0], [350.0, 576.0]]),
    ],
)
def test_segments_have_gradients(reduce, expected):
    data = (rl.arange(8.0).reshape(4, 2) + 1).requires_grad_()
    rl.segment_reduce(data, reduce, lengths=rl.tensor([2, 0, 2]))[::2].pow(2).sum().backward()
    assert data.grad.tolist() == expected


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda: rl.range(1, 0), "A002"),
        (lambda: rl.range(3), "A003"),
        (lambda: rl.empty_strided((2,), (1, 2)), "S002"),
        (lambda: rl.empty_permuted((2, 3), (0, 0)), "A002"),
        (lambda: rl.gradient(rl.tensor([1.0])), "S002"),
        (lambda: rl.gradient(grid(), spacing=[2.0, 0.5], dim=0), "A002"),
        (lambda: rl.gradient(rl.tensor([True, False])), "D001"),
        (lambda: rl.nanquantile(gaps(), 1.5), "A002"),
        (lambda: rl.quantile(rl.zeros(0), 0.5), "S002"),
        (lambda: rl.quantile(values(), rl.tensor(0.5, dtype=rl.float64)), "D002"),
        (lambda: rl.quantile(values(), 0.5, interpolation="cubic"), "A002"),
        (lambda: rl.histogram(rl.tensor([1.0, NAN]), 3), "A002"),
        (lambda: rl.histogram(rl.arange(3), 3), "D001"),
        (lambda: rl.histogramdd(points(), [2]), "A002"),
        (lambda: segments("sum", lengths=rl.tensor([2, 2])), "S014"),
        (lambda: segments("median"), "A002"),
        (lambda: rl.poisson(rl.tensor([-1.0])), "A002"),
        (lambda: rl.binomial(rl.tensor([10]), rl.tensor([0.5])), "D001"),
        (lambda: rl.binomial(rl.tensor([1.0]), rl.tensor([0.5], dtype=rl.float64)), "D002"),
        (lambda: rl.randint_like(rl.zeros(2), 5, 5), "A002"),
    ],
)
def test_what_cannot_be_is_refused(function, code):
    with pytest.raises(RushlightError) as error:
        function()
    assert error.value.code == code


def test_counts_are_distributed_and_drawn_again_from_a_seed():
    rl.manual_seed(3)
    counts = rl.poisson(rl.full((20000,), 3.0))
    assert abs(counts.mean() - 3) < 0.1 and abs(counts.var() - 3) < 0.2
    successes = rl.binomial(rl.full((20000,), 10.0), rl.full((20000,), 0.3))
    assert abs(successes.mean() - 3) < 0.1 and abs(successes.var() - 2.1) < 0.15
    rl.manual_seed(3)
    assert rl.compile(rl.poisson)(rl.full((20000,), 3.0)).tolist() == counts.tolist()
