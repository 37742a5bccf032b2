"""autocast: which dtypes results have, regions, weights that are cast once, gradients, and compiled functions."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.ops.record import OPERATORS

LOWER = """
addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d linalg_vecdot
linear matmul mm prelu scaled_dot_product_attention
"""
FLOAT32 = """
adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits cdist cholesky
cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy ctc_loss fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft
fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fractional_max_pool2d
fractional_max_pool3d geqrf grid_sample hinge_embedding_loss huber_loss inverse kl_div l1_loss linalg_cholesky
linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product
linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr linalg_solve linalg_svd linalg_svdvals
linalg_tensorinv linalg_tensorsolve lu_solve margin_ranking_loss max_pool3d max_unpool2d max_unpool3d
mse_loss multi_margin_loss
multilabel_margin_loss nanquantile nll_loss orgqr ormqr pinverse poisson_nll_loss polar prod qr quantile
smooth_l1_loss soft_margin_loss stft svd trace triangular_solve triplet_margin_loss view_as_complex
"""
# What PyTorch leaves as it is on the CPU, though not on other devices, or where one would expect otherwise.
PLAIN = """
adaptive_max_pool2d add addmv avg_pool2d bilinear cat cosine_similarity cumsum exp gaussian_nll_loss group_norm
layer_norm log_softmax logcumsumexp logsumexp max_pool2d mv pairwise_distance pow softmax stack sum
"""


def policy(name):
    """The policy of a public function, or operator."""
    family, _, rest = name.partition("_")
    place = {"linalg": rl.linalg, "fft": rl.fft}.get(family)
    places = [(F, name), (rl, name), (rl.Tensor, name)] if place is None else [(place, rest)]
    function = next((getattr(space, own) for space, own in places if hasattr(space, own)), None)
    records = [name] if place is None else [name, rest]
    known = next((OPERATORS[own].autocast for own in records if own in OPERATORS), None)
    return getattr(function, "autocast", known)


def test_functions_have_pytorchs_policies():
    policies = {"lower": LOWER, "float32": FLOAT32, None: PLAIN}
    expected = {name: kind for kind, names in policies.items() for name in names.split()}
    found = {name: policy(name) for name in expected}
    assert found == expected
    for function in (F.pad, F.interpolate):
        assert not hasattr(function, "autocast"), "by its mode"


@pytest.mark.parametrize(
    ("mode", "dims", "dtype"),
    [
        ("constant", 1, rl.bfloat16),
        ("circular", 1, rl.bfloat16),
        ("reflect", 2, rl.float32),
        ("reflect", 3, rl.bfloat16),
        ("replicate", 3, rl.float32),
    ],
)
def test_padding_has_the_policy_of_its_mode(mode, dims, dtype):
    x = rl.randn(1, 1, *[3] * dims, dtype=rl.bfloat16)
    with rl.autocast("cpu"):
        assert F.pad(x, (1,) * (2 * dims), mode).dtype is dtype


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_cast_and_what_they_consist_of_does_not(compiled):
    x = rl.randn(2, 3, dtype=rl.bfloat16, requires_grad=True)
    y = rl.randn(2, 3, dtype=rl.bfloat16)

    def loss(x, y):
        with rl.autocast("cpu"):
            return F.triplet_margin_loss(anchor=x, positive=y, negative=y + 1), F.cosine_similarity(x, y)

    found, plain = (rl.compile(loss) if compiled else loss)(x, y)
    assert found.dtype is rl.float32 and plain.dtype is rl.bfloat16
    expected = F.triplet_margin_loss(x.float(), y.float(), (y + 1).float())
    assert rl.equal(found, expected)
    found.backward()
    assert x.grad.dtype is rl.bfloat16


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_results_have_the_dtype_of_the_policy(dtype):
    x, y = rl.randn(3, 4), rl.randn(4, 2)
    with rl.autocast("cpu", dtype=dtype):
        product = x @ y
        assert product.dtype is dtype and rl.equal(product, x.to(dtype) @ y.to(dtype))
        assert (x.double() @ y.double()).dtype is rl.float64, "what is float64 stays so"
        assert F.mse_loss(product, product).dtype is rl.float32
        assert product.softmax(1).dtype is dtype and x.exp().dtype is rl.float32
        assert F.layer_norm(product, (2,), rl.ones(2), rl.zeros(2)).dtype is dtype
        assert (product + x[:, :2]).dtype is rl.float32
    assert (x @ y).dtype is rl.float32


@pytest.mark.row("1.4")
def test_regions_nest_and_end_with_errors():
    x = rl.randn(2, 2)
    region = rl.autocast("cpu", dtype=rl.float16)
    with region:
        with rl.autocast("cpu", enabled=False):
            assert (x @ x).dtype is rl.float32 and not rl.is_autocast_enabled("cpu")
            with region:
                assert (x @ x).dtype is rl.float16
            assert (x @ x).dtype is rl.float32
        with rl.autocast("cpu"):
            assert (x @ x).dtype is rl.float16, "the dtype of the region around it"
        with pytest.raises(rl.ShapeError), rl.autocast("cpu", dtype=rl.bfloat16):
            x @ rl.ones(3)
        assert rl.get_autocast_dtype("cpu") is rl.float16 and rl.is_autocast_cpu_enabled()
    assert not rl.is_autocast_enabled("cpu") and rl.get_autocast_cpu_dtype() is rl.bfloat16

    @rl.amp.autocast("cpu")
    def product(a):
        """Squares."""
        return a @ a

    assert product(x).dtype is rl.bfloat16 and product.__doc__ == "Squares."


def test_the_setting_can_be_changed_by_functions():
    x = rl.randn(2, 2)
    assert rl.is_autocast_cache_enabled() and not rl.is_autocast_enabled()
    rl.set_autocast_enabled("cpu", True)
    rl.set_autocast_dtype("cpu", rl.float16)
    try:
        assert (x @ x).dtype is rl.float16
    finally:
        rl.set_autocast_cpu_dtype(rl.bfloat16)
        rl.set_autocast_cpu_enabled(False)
    assert (x @ x).dtype is rl.float32
    assert rl.autocast_increment_nesting() == 1 and rl.autocast_decrement_nesting() == 0
    with pytest.raises(rl.NotSupportedError, match="there is no device cuda"):
        rl.set_autocast_enabled(True)


def casts(weight, **options):
    """How often a weight is cast in two products of one region."""
    x = rl.randn(2, 2)
    with rl.autocast("cpu", **options):
        first = (x @ weight).grad_fn
        second = (x @ weight).grad_fn
    edges = [next(node for node, _ in fn.next_functions if node is not None) for fn in (first, second)]
    return len({id(node) for node in edges})


def test_weights_are_cast_once_in_a_region():
    weight = rl.randn(2, 2, requires_grad=True)
    assert casts(weight) == 1 and casts(weight, cache_enabled=False) == 2
    x = rl.ones(1, 2)
    with rl.autocast("cpu"):
        with rl.no_grad():
            before = x @ weight
            weight.zero_()
        after = x @ weight
        assert after.requires_grad and not after.any() and before.any(), "a weight that was changed is cast again"


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_of_the_weights_dtype(compiled):
    rl.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    twice = rl.randn(8, 8, requires_grad=True)
    x, y = rl.randn(5, 4), rl.tensor([0, 1, 2, 1, 0])
    values = [*model.parameters(), twice]

    def step(x, y):
        with rl.autocast("cpu", dtype=rl.bfloat16):
            hidden = model[2](model[1](model[0](x)) @ twice @ twice)
            logits = model[3](hidden)
            loss = F.cross_entropy(logits, y)
        loss.backward()
        return logits, loss

    logits, loss = step(x, y)
    gradients = [value.grad for value in values]
    assert logits.dtype is rl.bfloat16 and loss.dtype is rl.float32
    assert all(gradient.dtype is rl.float32 for gradient in gradients)
    if compiled:
        for value in values:
            value.grad = None
        results = rl.compile(step)(x, y)
        assert rl.equal(results[0], logits) and rl.equal(results[1], loss)
        assert all(rl.equal(value.grad, gradient) for value, gradient in zip(values, gradients, strict=True))
    else:
        exact = F.cross_entropy(model[3](model[2](model[1](model[0](x)) @ twice @ twice)), y)
        for gradient, wanted in zip(gradients, rl.autograd.grad(exact, values), strict=True):
            assert rl.allclose(gradient, wanted, atol=3e-2 * float(wanted.abs().max()) + 1e-3)


def test_compiled_functions_are_guarded_on_the_region_around_them():
    weight = rl.randn(3, 3)
    rl.compiler.reset()
    product = rl.compile(lambda x: x @ weight)
    x = rl.randn(2, 3)
    assert product(x).dtype is rl.float32
    for dtype in (rl.bfloat16, rl.float16, rl.bfloat16):
        with rl.autocast("cpu", dtype=dtype):
            assert rl.equal(product(x), x @ weight) and product(x).dtype is dtype
    assert product(x).dtype is rl.float32 and rl.compiler.graph_count() == 3


def test_custom_functions_run_as_they_say():
    seen = []

    class Product(rl.autograd.Function):
        @staticmethod
        @rl.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @rl.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            seen.append((grad @ b.mT).dtype)
            return (grad @ b.mT).float(), (a.mT @ grad).float()

    class Exact(rl.autograd.Function):
        @staticmethod
        @rl.amp.custom_fwd(device_type="cpu", cast_inputs=rl.float32)
        def forward(ctx, a):
            seen.append((a.dtype, (a @ a).dtype))
            return a

        @staticmethod
        @rl.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append((grad @ grad).dtype)
            return grad

    a = rl.randn(2, 2, requires_grad=True)
    with rl.autocast("cpu"):
        result = Product.apply(a, a)
    result.float().sum().backward()
    with rl.autocast("cpu"):
        Exact.apply(a @ a).sum().backward()
    assert seen == [rl.bfloat16, (rl.float32, rl.float32), rl.float32]


def test_other_devices_are_off_with_a_warning():
    rl_warning = rl.RushlightWarning
    with pytest.warns(rl_warning, match="device_type of 'cuda', but there is none"), rl.autocast("cuda"):
        assert (rl.ones(2, 2) @ rl.ones(2, 2)).dtype is rl.float32 and not rl.is_autocast_enabled()
    with pytest.warns(rl_warning, match="target dtype is not supported"), rl.autocast("cpu", dtype=rl.float64):
        assert not rl.is_autocast_enabled("cpu")
    with rl.cuda.amp.autocast(enabled=False):
        assert rl.get_autocast_gpu_dtype() is rl.float16
    with pytest.raises(rl.ArgumentRuntimeError, match="unsupported autocast device_type 'toaster'"):
        rl.autocast("toaster")
    with pytest.raises(rl.ArgumentTypeError, match="of type `str`"):
        rl.autocast(rl.bfloat16)


FORTY = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x.abs() ** y,
    "maximum": rl.maximum,
    "where": lambda x, y: rl.where(x > y, x, y),
    "matmul": rl.matmul,
    "mm": rl.mm,
    "bmm": lambda x, y: rl.bmm(x[None], y[None]),
    "addmm": lambda x, y: rl.addmm(x, x, y),
    "baddbmm": lambda x, y: rl.baddbmm(x[None], x[None], y[None]),
    "mv": lambda x, y: rl.mv(x, y[0]),
    "linear": F.linear,
    "conv1d": lambda x, y: F.conv1d(x[None], y[:, :, None]),
    "conv2d": lambda x, y: F.conv2d(x[None, :, :, None], y[:, :, None, None]),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
    "sum": lambda x, y: (x @ y).sum(),
    "mean": lambda x, y: (x @ y).mean(0),
    "prod": lambda x, y: (x @ y).prod(),
    "var": lambda x, y: (x @ y).var(1),
    "norm": lambda x, y: (x @ y).norm(),
    "softmax": lambda x, y: (x @ y).softmax(1),
    "log_softmax": lambda x, y: (x @ y).log_softmax(1),
    "logsumexp": lambda x, y: (x @ y).logsumexp(1),
    "cumsum": lambda x, y: (x @ y).cumsum(0),
    "relu": lambda x, y: (x @ y).relu(),
    "gelu": lambda x, y: F.gelu(x @ y),
    "exp": lambda x, y: (x @ y).exp(),
    "log": lambda x, y: (x @ y).abs().log(),
    "tanh": lambda x, y: (x @ y).tanh(),
    "layer_norm": lambda x, y: F.layer_norm(x @ y, (4,)),
    "group_norm": lambda x, y: F.group_norm(x @ y, 2),
    "batch_norm": lambda x, y: F.batch_norm(x @ y, None, None, training=True),
    "max_pool1d": lambda x, y: F.max_pool1d((x @ y)[None], 2),
    "avg_pool3d": lambda x, y: F.avg_pool3d((x @ y)[None, None], (1, 2, 2)),
    "cat": lambda x, y: rl.cat((x, x @ y)),
    "mse_loss": F.mse_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "cross_entropy": lambda x, y: F.cross_entropy(x @ y, rl.arange(4)),
    "cdist": rl.cdist,
}


@pytest.mark.row("1.4")
@pytest.mark.usefixtures("quick_code")
def test_forty_functions_are_alike_eager_and_compiled():
    assert len(FORTY) == 40
    x, y = rl.randn(4, 4), rl.randn(4, 4)

    def every():
        with rl.autocast("cpu", dtype=rl.bfloat16):
            return [function(x, y) for function in FORTY.values()]

    for name, eager, compiled in zip(FORTY, every(), rl.compile(every)(), strict=True):
        assert compiled.dtype is eager.dtype, name
        assert rl.equal(compiled, eager), name
