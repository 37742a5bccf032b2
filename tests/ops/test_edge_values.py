"""Values at the edges, eager and compiled: NaN, overflow, rounding of parameters, tensors without dims, odd dtypes.

Expected values are PyTorch 2.13's, but where a comment says otherwise.
"""

import math

import pytest

import rushlight as rl
from opcheck import refused
from rushlight.support.errors import RushlightError

F = rl.nn.functional
NAN, INF = math.nan, math.inf
HALF_ABOVE = 0.300048828125  # 0.3 rounded to float16 is above it


def half(*values):
    return rl.tensor(values, dtype=rl.float16)


def bools(*values):
    return rl.tensor(values)


VALUES = {
    "threshold keeps NaN": (lambda: rl.threshold(rl.tensor([NAN, 0.0, 1.0]), 0.1, 20.0), [NAN, 20.0, 1.0]),
    "quantile of NaN": (lambda: rl.quantile(rl.tensor([[1.0, NAN, 3.0], [1.0, 2.0, 3.0]]), 0.3, 1), [NAN, 1.6]),
    "quantile without dims": (lambda: rl.quantile(rl.tensor(2.0), 0.5, 0, True), 2.0),
    "std of large numbers": (lambda: rl.std(rl.tensor([1e30, -1e30, 0.0])), 1e30),
    "a number is rounded before it is compared": (lambda: half(HALF_ABOVE) > 0.3, [False]),
    "so too on the left": (lambda: half(HALF_ABOVE) <= 0.3, [True]),
    "hardshrink rounds lambd": (lambda: rl.hardshrink(half(HALF_ABOVE), 0.3), [0.0]),
    "hardswish of large float16": (lambda: F.hardswish(half(20000.0)), [20000.0]),
    "cosine of broadcast operands": (lambda: F.cosine_similarity(rl.tensor([1.0]), rl.ones(4), 0), 1.0),
    "circular padding wraps what is left": (
        lambda: F.pad(rl.arange(4.0).reshape(1, 1, 4), (-1, 2), "circular"),
        [[[1.0, 2.0, 3.0, 1.0, 2.0]]],
    ),
    "add of bools with alpha": (lambda: rl.add(bools(False, False), bools(True, False), alpha=2), [True, False]),
    "alpha may be false": (lambda: rl.add(bools(False), bools(True), alpha=False), [False]),
    "an int scattered into bools": (
        lambda: rl.slice_scatter(rl.ones(4, dtype=rl.bool), rl.zeros(1, dtype=rl.int64), 0, 0, 1),
        [False, True, True, True],
    ),
    "var_mean(unbiased)": (lambda: rl.stack(rl.var_mean(rl.tensor([1.0, 3.0]), False)), [1.0, 2.0]),
    "arange of integers truncates first": (lambda: rl.arange(0.1, -7.9, -4.0, dtype=rl.int64), [0, -4]),
    "linspace of integers truncates first": (lambda: rl.linspace(4.3, 7.9, 4, dtype=rl.int64), [4, 5, 6, 7]),
    # PyTorch leaves what lies beyond the dtype's range open (docs/numerics.md).
    "floats beyond uint8": (lambda: rl.tensor([-1.0, 300.0, NAN, 256.5]).to(rl.uint8), [0, 255, 0, 255]),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", VALUES)
def test_values(name, compiled):
    function, expected = VALUES[name]
    given = (rl.compile(function) if compiled else function)().tolist()
    assert repr(given) == repr(expected) or given == pytest.approx(expected, rel=1e-6, nan_ok=True)


SHAPES = {
    "argwhere of one": (lambda: rl.argwhere(rl.tensor(2.0)), (1, 0)),
    "argwhere of none": (lambda: rl.argwhere(rl.tensor(0.0)), (0, 0)),
    "nonzero": (lambda: rl.nonzero(rl.tensor(True)), (1, 0)),
    "prelu": (lambda: rl.prelu(rl.tensor(-2.0), rl.tensor([0.2])), ()),
    "quantile": (lambda: rl.quantile(rl.tensor(2.0), 0.5, 0), ()),
    "broadcast_shapes of ints": (lambda: rl.empty(rl.broadcast_shapes((5, 1), 5)), (5, 5)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    function, expected = SHAPES[name]
    assert tuple(function().shape) == expected


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda: rl.any(rl.tensor([1, 0], dtype=rl.uint8)), rl.uint8),
        (lambda: rl.tensor([1, 0], dtype=rl.uint8).all(0), rl.uint8),
        (lambda: rl.any(rl.tensor([1, 0])), rl.bool),
        (lambda: rl.bincount(rl.tensor([0, 1])), rl.int64),
        (lambda: rl.bincount(rl.tensor([0, 1]), rl.ones(2)), rl.float32),
        (lambda: rl.bincount(rl.tensor([0, 1]), rl.ones(2, dtype=rl.bfloat16)), rl.float64),
        (lambda: rl.bincount(rl.tensor([0, 1]), rl.ones(2, dtype=rl.int32)), rl.float64),
    ],
)
def test_dtypes(function, dtype):
    assert function().dtype is dtype


def gradient(function, x):
    x = x.requires_grad_()
    return rl.autograd.grad(function(x).sum(), x)[0]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("function", "values", "dtype", "expected"),
    [
        (rl.relu, [NAN, -1.0, 0.0, 2.0], rl.float32, [1.0, 0.0, 0.0, 1.0]),
        (lambda x: rl.threshold(x, 0.1, 20.0), [NAN, 0.0, 1.0], rl.float32, [1.0, 0.0, 1.0]),
        (lambda x: F.gelu(x, approximate="tanh"), [256.0, -65504.0], rl.float16, [1.0, 0.0]),
        (F.hardswish, [2.998046875], rl.float16, [1.4990234375]),
        (F.softsign, [65504.0], rl.float16, [0.0]),
        (F.mish, [-0.75390625], rl.float16, [0.158935546875]),
        (F.silu, [-0.9365234375], rl.float16, [0.0921630859375]),
        (rl.tanh, [1.69921875], rl.float16, [0.124755859375]),
    ],
)
def test_gradients(function, values, dtype, expected, compiled):
    given = gradient(rl.compile(function) if compiled else function, rl.tensor(values, dtype=dtype))
    assert given.tolist() == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize("dims", [2, 3])
def test_gradient_of_transposed_convolution_has_the_input_s_shape(dims):
    # Output padding beyond the stride, which a larger dilation allows, gives the adjoint more windows than the input.
    convolve = (F.conv_transpose2d, F.conv_transpose3d)[dims - 2]
    x, w = rl.randn(1, 2, *(4,) * dims).requires_grad_(), rl.randn(2, 3, *(2,) * dims).requires_grad_()
    for function in (convolve, rl.compile(convolve)):
        out = function(x, w, stride=2, padding=1, output_padding=3, dilation=4)
        by_input, by_weight = rl.autograd.grad(out.square().sum(), (x, w))
        assert by_input.shape == x.shape
        assert by_weight.shape == w.shape


COMPLEX_PRODUCTS = {
    "matmul": lambda a, b: a @ b,
    "batched": lambda a, b: a[None] @ b[None],
    "linear": F.linear,
    "baddbmm": lambda a, b: rl.baddbmm(a[None], a[None], b[None], alpha=0.5),
    "vector": lambda a, b: a @ b[0],
    "addcmul": lambda a, b: rl.addcmul(a, a, b, value=0.5),
    "add": lambda a, b: rl.add(a, b, alpha=1 + 2j),
}


@pytest.mark.parametrize("name", COMPLEX_PRODUCTS)
def test_gradients_of_complex_products_are_conjugate(name):
    # Of a real loss L the gradient is dL/d(real) + i dL/d(imaginary): compared with differences along both.
    function = COMPLEX_PRODUCTS[name]
    rl.manual_seed(0)
    parts = [rl.randn(2, 2, 2, dtype=rl.float64) for _ in range(2)]
    a, b = [(re + im * 1j).requires_grad_() for re, im in (part.unbind() for part in parts)]

    def loss(x, y):
        out = function(x, y)
        return (out.real.square() + out.imag * 3).sum()

    for position, got in enumerate(rl.autograd.grad(loss(a, b), (a, b))):
        for step in (1e-6, 1e-6j):
            moved = [[x.detach() for x in (a, b)] for _ in range(2)]
            for sign, pair in zip((1, -1), moved, strict=True):
                pair[position] = pair[position] + sign * step * rl.eye(2, dtype=rl.float64)
            slope = (loss(*moved[0]) - loss(*moved[1])).item() / 2e-6
            part = got.real if step == 1e-6 else got.imag
            assert slope == pytest.approx((part * rl.eye(2, dtype=rl.float64)).sum().item(), rel=1e-5)


def test_constants_are_converted_as_elements_are():
    values = [-1.0, 300.0, 256.5]
    eager = rl.tensor(values).to(rl.uint8).tolist()
    for value, expected in zip(values, eager, strict=True):
        assert rl.compile(lambda value=value: rl.full((1,), value).to(rl.uint8))().tolist() == [expected]
        assert rl.full((1,), value).to(rl.uint8).tolist() == [expected]


def test_sort_of_no_tensor_is_a_registered_error():
    with pytest.raises(RushlightError):
        rl.sort(None)


def test_attention_drops_weights_without_gradients_too():
    q = rl.randn(2, 3, 4)

    def attention(q):
        return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    rl.manual_seed(0)
    eager = attention(q)
    rl.manual_seed(0)
    assert rl.equal(rl.compile(attention)(q), eager)


@pytest.mark.parametrize("compiled", [False, True])
def test_products_of_integers_are_scaled_by_whole_numbers(compiled):
    a, b = rl.tensor([[1, 2], [3, 4]]), rl.tensor([[5, 6], [7, 8]])
    scaled = lambda alpha: rl.addmm(a, a, b, beta=3, alpha=alpha)  # noqa: E731 - one expression, run twice
    function = rl.compile(scaled) if compiled else scaled
    assert function(-2).tolist() == [[-35, -38], [-77, -88]] and function(-2).dtype is rl.int64
    with pytest.raises(rl.RushlightError, match="whole numbers"):
        scaled(0.5)


def test_repeats_have_the_size_that_is_announced():
    """`output_size` is checked against the sum of repeats, eager and compiled."""
    x, repeats = rl.arange(6.0).reshape(3, 2), rl.tensor([1, 2, 0])
    assert x.repeat_interleave(repeats, 0, output_size=3).tolist() == [[0, 1], [2, 3], [2, 3]]
    assert rl.repeat_interleave(x, 2, dim=-1, output_size=4).shape == (3, 4)
    for function in (rl.repeat_interleave, rl.compile(lambda *parts, **named: rl.repeat_interleave(*parts, **named))):
        with pytest.raises(rl.ExecutionError, match="output_size"):
            function(x, repeats, 0, output_size=4)


def test_glu_needs_dims():
    """A tensor without dims has no halves: a registered error."""
    with pytest.raises(RushlightError, match="glu"):
        rl.nn.functional.glu(rl.tensor(1.0), 0)


@pytest.mark.parametrize("name", ["sort", "argsort", "topk", "kthvalue", "median", "max", "min", "take_along_dim"])
@pytest.mark.parametrize("dim", [1, -2])
def test_a_tensor_without_dims_has_no_further_dim(name, dim):
    first = {"topk": (1,), "kthvalue": (1,), "take_along_dim": (rl.tensor(0),)}.get(name, ())
    with refused("I002"):
        getattr(rl.tensor(2.0), name)(*first, dim)


def test_repeats_of_a_tensor_without_dims():
    assert rl.tensor(2.0).repeat_interleave(rl.tensor([3]), dim=0).tolist() == [2.0, 2.0, 2.0]


def test_the_median_of_no_bools_is_true_as_nan_would_be():
    assert rl.empty(0, dtype=rl.bool).median().item() is True


@pytest.mark.parametrize("compiled", [False, True])
def test_real_tensors_are_their_own_conjugate_and_real_part(compiled):
    def write(x):
        x.conj().add_(1)
        rl.real(x).mul_(2)
        return x

    x = rl.ones(3)
    assert (rl.compile(write) if compiled else write)(x).tolist() == x.tolist() == [4.0, 4.0, 4.0]
    z = rl.ones(3, dtype=rl.complex64)
    z.conj().add_(1)
    assert z.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("compiled", [False, True])
def test_running_sums_and_products_of_float32_are_folded_in_float64(compiled):
    total, product = (lambda x: x.cumsum(0)[-1]), (lambda x: x.cumprod(0))
    if compiled:
        total, product = rl.compile(total), rl.compile(product)
    assert total(rl.full((100_000,), 0.1)).item() == 10000.0  # PyTorch's; a chain in float32 gives 9998.56
    assert product(rl.tensor([1e30, 1e30, 1e-30])).tolist() == [1.0000000150474662e30, math.inf, 1.0000000150474662e30]


@pytest.mark.parametrize("pads", [(-1, 2), (2, -1)])
def test_no_more_is_cropped_than_there_is(pads):
    with refused("S007"):
        F.pad(rl.zeros(0), pads)
    assert F.pad(rl.tensor([1, 2, 3]), (-1, -1), value=NAN).tolist() == [2]


def test_group_norm_needs_several_values_per_group():
    with refused("A002"):
        F.group_norm(rl.ones(1, 2, 1), 2)


@pytest.mark.parametrize("dims", [2, 3])
def test_a_place_that_is_nan_has_no_value(dims):
    image = rl.arange(4.0**dims).reshape(1, 1, *[4] * dims)
    places = rl.zeros(1, *[1] * (dims - 1), 3, dims)
    places[..., 0, 0], places[..., 1, 0] = NAN, INF
    for compiled in (False, True):
        sample = rl.compile(rl.nn.functional.grid_sample) if compiled else rl.nn.functional.grid_sample
        found = sample(image, places, align_corners=True).flatten()
        assert found[0].isnan() and found[1] == 0 and found[2] == (4**dims - 1) / 2
        assert sample(image, places, "nearest", align_corners=True).flatten()[:2].tolist() == [0, 0]
        border = sample(image, places, padding_mode="border", align_corners=True).flatten()
        assert border[0] + 3 == border[1]  # the first pixel of the row, and the last one
