"""`out=` of functions that are no pointwise operators: the result is written there, eagerly and compiled."""

import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError

X = (rl.arange(16.0) * 0.7).sin().reshape(4, 4)
PLACES = rl.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [0, 0, 1, 1], [2, 2, 2, 2]])
EDGES = rl.tensor([-0.5, 0.0, 0.5])

FORMS = {
    "all": lambda out: rl.all(X > 0, 1, out=out),
    "amax": lambda out: rl.amax(X, 1, out=out),
    "any": lambda out: rl.any(X > 0, 1, out=out),
    "argmin": lambda out: rl.argmin(X, 1, out=out),
    "bmm": lambda out: rl.bmm(X[None], X[None], out=out),
    "bucketize": lambda out: rl.bucketize(X, EDGES, out=out),
    "avg_pool2d": lambda out: rl.nn.functional.avg_pool2d(X[None, None], 2, out=out),
    "cat": lambda out: rl.cat([X, X], 1, out=out),
    "dot": lambda out: rl.dot(X[0], X[1], out=out),
    "float_power": lambda out: rl.float_power(X.abs(), 0.5, out=out),
    "gather": lambda out: rl.gather(X, 1, PLACES, out=out),
    "hstack": lambda out: rl.hstack([X, X], out=out),
    "gelu": lambda out: rl.nn.functional.gelu(X, approximate="tanh", out=out),
    "hardshrink": lambda out: rl.nn.functional.hardshrink(X, 0.3, out=out),
    "index_add": lambda out: rl.index_add(X, 0, PLACES[0], X, alpha=2, out=out),
    "index_select": lambda out: rl.index_select(X, 1, PLACES[2], out=out),
    "isneginf": lambda out: rl.isneginf(X.log(), out=out),
    "linear": lambda out: rl.nn.functional.linear(X, X, X[0], out=out),
    "log_softmax": lambda out: rl.log_softmax(X, 0, out=out),
    "logsumexp": lambda out: rl.logsumexp(X, 1, out=out),
    "matmul": lambda out: rl.matmul(X, X, out=out),
    "mean": lambda out: rl.mean(X, 1, out=out),
    "mm": lambda out: rl.mm(X, X, out=out),
    "msort": lambda out: rl.msort(X, out=out),
    "mv": lambda out: rl.mv(X, X[0], out=out),
    "nuclear norm": lambda out: rl.norm(X, "nuc", out=out),
    "norm": lambda out: rl.norm(X, 2, 1, out=out),
    "outer": lambda out: rl.outer(X[0], X[1], out=out),
    "scatter_add": lambda out: rl.scatter_add(X, 0, PLACES, X, out=out),
    "searchsorted": lambda out: rl.searchsorted(EDGES, X, out=out),
    "slice_scatter": lambda out: rl.slice_scatter(X, X[:2], 0, 1, 3, out=out),
    "softmax": lambda out: rl.softmax(X, 0, out=out),
    "stack": lambda out: rl.stack([X, X], 1, out=out),
    "std": lambda out: rl.std(X, 1, out=out),
    "take_along_dim": lambda out: rl.take_along_dim(X, PLACES, 1, out=out),
    "tril": lambda out: rl.tril(X, 1, out=out),
    "where": lambda out: rl.where(X > 0, X, 0.0, out=out),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_result_is_written_there(name):
    form = FORMS[name]
    wanted = form(None)
    target = rl.zeros_like(wanted)
    assert form(target) is target
    assert target.tolist() == wanted.tolist()


@pytest.mark.parametrize("name", ["cat", "matmul", "mean", "where"])
def test_a_compiled_function_writes_it_too(name):
    wanted = FORMS[name](None)
    target = rl.zeros_like(wanted)
    rl.compile(FORMS[name], fullgraph=True)(target)
    assert target.tolist() == wanted.tolist()
    with pytest.raises(RushlightError) as caught:
        FORMS[name](rl.zeros(7))
    assert caught.value.code == "S009"


@pytest.mark.parametrize(
    "form",
    [
        lambda out: rl.sort(X, 1, out=out),
        lambda out: rl.topk(X, 2, out=out),
        lambda out: rl.kthvalue(X, 2, out=out),
        lambda out: rl.median(X, 1, out=out),
        lambda out: rl.max(X, 1, out=out),
        lambda out: rl.cummax(X, 1, out=out),
        lambda out: rl.cummin(X, 0, out=out),
        lambda out: rl.geqrf(X, out=out),
        lambda out: rl.qr(X, out=out),
        lambda out: rl.native_batch_norm(X, None, None, None, None, True, 0.1, 1e-5, out=out),
        lambda out: rl.triangular_solve(X, X + 2 * rl.eye(4), out=out),
    ],
)
def test_several_results_are_written_to_as_many_tensors(form):
    wanted = form(None)
    targets = tuple([rl.zeros_like(part) for part in wanted])
    found = form(targets)
    assert found[0] is targets[0] and type(found) is type(wanted)
    assert [part.tolist() for part in targets] == [part.tolist() for part in wanted]


MADE = {
    "arange": (2, 9, 3),
    "empty": (2, 3),
    "eye": (2, 3),
    "full": ((2, 3), 7),
    "linspace": (0, 3, 4),
    "ones": (2, 3),
    "rand": (2, 3),
    "randint": (5, (2, 3)),
    "randn": (2, 3),
    "randperm": (5,),
    "zeros": (2, 3),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_written_in_the_dtype_of_the_target(name):
    make = getattr(rl, name)
    for dtype in (rl.int64,) if name in ("randint", "randperm") else (rl.float64, rl.float32):
        rl.manual_seed(3)
        wanted = make(*MADE[name], dtype=dtype)
        target = rl.empty(0, dtype=dtype)
        rl.manual_seed(3)
        assert make(*MADE[name], out=target) is target and target.shape == wanted.shape
        assert name == "empty" or target.tolist() == wanted.tolist()
        part = rl.zeros((*wanted.shape, 2), dtype=dtype)[..., 1]
        rl.manual_seed(3)
        make(*MADE[name], dtype=dtype, out=part)
        assert name == "empty" or part.tolist() == wanted.tolist()
    with pytest.raises(RushlightError) as caught:
        make(*MADE[name], dtype=rl.bool, out=target)
    assert caught.value.code == "D002"


def test_a_compiled_function_makes_it_there_too():
    made = rl.compile(lambda: rl.ones(2, 3, out=rl.zeros(2, 3, dtype=rl.float64)), fullgraph=True)()
    assert made.dtype is rl.float64 and made.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("name", ["amax", "cat", "hstack", "matmul", "msort", "where"])
def test_a_target_without_elements_gets_memory_for_the_result(name):
    wanted = FORMS[name](None)
    for shape in ((0,), (2, 0)):
        target = rl.empty(shape, dtype=wanted.dtype)
        assert FORMS[name](target) is target and target.tolist() == wanted.tolist()
        written = target.add_(1) if wanted.dtype is not rl.bool else target
        assert written.shape == wanted.shape and target.stride() == wanted.stride()
    target = rl.empty(0, device="meta")
    assert rl.add(X.to("meta"), X.to("meta"), out=target).shape == target.shape == X.shape


def test_out_keeps_signs_of_zero_and_takes_no_history():
    zeros = rl.tensor([-0.0, 0.0])
    spectrum = rl.fft.fft(rl.tensor([-0.0, -0.0]), out=rl.empty(0, dtype=rl.complex64))
    assert rl.signbit(rl.real(spectrum)).tolist() == rl.signbit(rl.real(rl.fft.fft(rl.tensor([-0.0, -0.0])))).tolist()
    assert rl.bernoulli(rl.ones(3), out=rl.empty(0)).tolist() == [1.0] * 3
    assert rl.nn.functional.normalize(X, out=rl.empty(0)).tolist() == rl.nn.functional.normalize(X).tolist()
    factors = rl.lu(X, out=(rl.empty(0), rl.empty(0, dtype=rl.int32)))
    assert [one.tolist() for one in factors] == [one.tolist() for one in rl.lu(X)]
    fitted = rl.linalg.lstsq(X, X, out=(rl.empty(0), rl.empty(0), rl.empty(0, dtype=rl.int64), rl.empty(0)))
    assert fitted.solution.tolist() == rl.linalg.lstsq(X, X).solution.tolist()
    learning = zeros.clone().requires_grad_()
    for call in (
        lambda: rl.msort(learning, out=rl.empty(2)),
        lambda: rl.msort(zeros, out=rl.empty(2, requires_grad=True)),
        lambda: rl.fft.fft(learning, out=rl.empty(2, dtype=rl.complex64)),
    ):
        with pytest.raises(RushlightError) as caught:
            call()
        assert caught.value.code == "A004"


def test_a_target_that_stays_empty_is_told_why():
    target = rl.empty(0, dtype=rl.int64)
    for call, code in (
        (lambda: rl.add(X, X, out=target), "D003"),
        (lambda: rl.sort(X, out=(rl.empty(0), rl.empty(0, dtype=rl.bool))), "D003"),
        (lambda: rl.add(X, X, out=rl.ones(3)[:0]), "S009"),
        (lambda: rl.compile(lambda x: rl.add(x, x, out=rl.empty(0)), fullgraph=True)(X), "S009"),
    ):
        with pytest.raises(RushlightError) as caught:
            call()
        assert caught.value.code == code
    assert target.shape == (0,)
