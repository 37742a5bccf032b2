"""Numbers that are too small: an error exactly where PyTorch 2.13 has one, never another meaning of -1."""

import pytest

import rushlight as rl
from rushlight.nn import functional as F

X, ONE, V = rl.arange(6.0).reshape(2, 3), rl.ones(1), rl.arange(4.0)

# A call with a number, and those of -2, -1 and 0 that PyTorch refuses.
CASES = {
    "repeat": (lambda n: ONE.repeat(n), (-2, -1)),
    "repeat2": (lambda n: X.repeat(n, 1), (-2, -1)),
    "tile": (lambda n: rl.tile(ONE, (n,)), (-2, -1)),
    "tile2": (lambda n: rl.tile(X, (n,)), (-2, -1)),
    "ri": (lambda n: ONE.repeat_interleave(n), (-2, -1)),
    "ri0": (lambda n: X.repeat_interleave(n, 0), (-2, -1)),
    "zeros": (lambda n: rl.zeros(n), (-2, -1)),
    "zeros2": (lambda n: rl.zeros(2, n), (-2, -1)),
    "full": (lambda n: rl.full((n,), 1.0), (-2, -1)),
    "new_zeros": (lambda n: X.new_zeros(n), (-2, -1)),
    "new_full": (lambda n: X.new_full((n, 2), 1.0), (-2, -1)),
    "eye": (lambda n: rl.eye(n), (-2, -1)),
    "eye2": (lambda n: rl.eye(2, n), (-2, -1)),
    "linspace": (lambda n: rl.linspace(0, 1, n), (-2, -1)),
    "logspace": (lambda n: rl.logspace(0, 1, n), (-2, -1)),
    "narrow": (lambda n: X.narrow(1, 0, n), (-2, -1)),
    "chunk": (lambda n: X.chunk(n), (-2, -1, 0)),
    "split": (lambda n: X.split(n), (-2, -1, 0)),
    "split2": (lambda n: X.split([n, 3], 1), (-2, -1)),
    "tsplit": (lambda n: X.tensor_split(n, 1), (-2, -1, 0)),
    "unfold": (lambda n: V.unfold(0, n, 1), (-2, -1)),
    "unfold2": (lambda n: V.unfold(0, 2, n), (-2, -1, 0)),
    "topk": (lambda n: V.topk(n), (-2, -1)),
    "kth": (lambda n: V.kthvalue(n), (-2, -1, 0)),
    "one_hot": (lambda n: F.one_hot(rl.tensor([0, 1]), n), (-2, 0)),
    "bincount": (lambda n: rl.bincount(rl.tensor([0, 1]), minlength=n), (-2, -1)),
    "histc": (lambda n: rl.histc(V, n), (-2, -1, 0)),
    "randperm": (lambda n: rl.randperm(n).shape, (-2, -1)),
    "tri": (lambda n: rl.tril_indices(n, 2), (-2, -1)),
    "tri2": (lambda n: rl.triu_indices(2, n), (-2, -1)),
    "unflatten": (lambda n: V.unflatten(0, (n, 2)), (-2, 0)),
    "unflatten3": (lambda n: V.unflatten(0, (n, n)), (-2, -1, 0)),
    "view": (lambda n: V.view(n, 4), (-2, 0)),
    "view2": (lambda n: V.view(n, n), (-2, -1, 0)),
    "as_strided": (lambda n: V.as_strided((n,), (1,)), (-2, -1)),
    "as_strided2": (lambda n: V.as_strided((2,), (n,)), (-2, -1)),
    "pixel": (lambda n: F.pixel_shuffle(rl.ones(1, 4, 2, 2), n), (-2, -1, 0)),
    "pixelun": (lambda n: F.pixel_unshuffle(rl.ones(1, 4, 2, 2), n), (-2, -1, 0)),
    "pool": (lambda n: F.max_pool1d(rl.ones(1, 1, 4), n), (-2, -1, 0)),
    "avgpool": (lambda n: F.avg_pool1d(rl.ones(1, 1, 4), n), (-2, -1, 0)),
    "adapt": (lambda n: F.adaptive_avg_pool1d(rl.ones(1, 1, 4), n), (-2, -1)),
    "adaptm": (lambda n: F.adaptive_max_pool1d(rl.ones(1, 1, 4), n), (-2, -1)),
    "interp": (lambda n: F.interpolate(rl.ones(1, 1, 4), size=n), (-2, -1, 0)),
    "pad": (lambda n: F.pad(V, (n, 0)), ()),
    "padc": (lambda n: F.pad(V, (-3, n)), (-2,)),
    "convpad": (lambda n: F.conv1d(rl.ones(1, 1, 4), rl.ones(1, 1, 2), padding=n), (-2, -1)),
    "convstride": (lambda n: F.conv1d(rl.ones(1, 1, 4), rl.ones(1, 1, 2), stride=n), (-2, -1, 0)),
    "convdil": (lambda n: F.conv1d(rl.ones(1, 1, 4), rl.ones(1, 1, 2), dilation=n), (-2, -1, 0)),
    "convt": (lambda n: F.conv_transpose1d(rl.ones(1, 1, 4), rl.ones(1, 1, 2), stride=n), (-2, -1, 0)),
    "groups": (lambda n: F.conv1d(rl.ones(1, 2, 4), rl.ones(2, 1, 2), groups=n), (-2, -1, 0)),
    "fold": (lambda n: F.fold(rl.ones(1, 2, 2), n, (1, 2)), (-2, -1, 0)),
    "unfoldF": (lambda n: F.unfold(rl.ones(1, 1, 4, 4), n), (-2, -1, 0)),
    "gn": (lambda n: F.group_norm(rl.ones(2, 4), n), (-2, -1, 0)),
    "vander": (lambda n: rl.vander(V, n), (-2, -1)),
    "fft": (lambda n: rl.fft.fft(V, n).abs(), (-2, -1, 0)),
    "rfft": (lambda n: rl.fft.irfft(rl.fft.rfft(V), n), (-2, -1, 0)),
    "cdist": (lambda n: rl.cdist(X, X, n), (-2, -1)),
    "combos": (lambda n: rl.combinations(V, n), (-2, -1)),
    "matrix_power": (lambda n: rl.linalg.matrix_power(rl.eye(2) * 2, n), ()),
    "multinomial": (lambda n: rl.multinomial(V, n).shape, (-2, -1, 0)),
    "expand": (lambda n: ONE.expand(n), (-2,)),
    "expand2": (lambda n: X.expand(n, 2, 3), (-2, -1)),
    "diag": (lambda n: rl.diag(V, n), ()),
    "diagonal": (lambda n: X.diagonal(n), ()),
    "roll": (lambda n: V.roll(n), ()),
    "rot90": (lambda n: rl.rot90(X, n), ()),
    "cumsum": (lambda n: X.cumsum(n), ()),
    "hann": (lambda n: rl.hann_window(n), (-2, -1)),
    "shuffle": (lambda n: F.channel_shuffle(rl.ones(1, 4, 2, 2), n), (-2, -1, 0)),
    "lrn": (lambda n: F.local_response_norm(rl.ones(1, 4, 2), n), (-2, -1, 0)),
    "rand": (lambda n: rl.rand(n).shape, (-2, -1)),
    "randint": (lambda n: rl.randint(0, 3, (n,)).shape, (-2, -1)),
    "squeeze": (lambda n: X[None].squeeze(n), ()),
    "unsq": (lambda n: X.unsqueeze(n), ()),
    "glu": (lambda n: F.glu(rl.ones(2, 4), n), ()),
    "stack": (lambda n: rl.stack([V, V], n), ()),
    "hsplit": (lambda n: V.hsplit(n), (-2, -1, 0)),
    "swap": (lambda n: X.swapaxes(n, 0), ()),
    "flat": (lambda n: X.flatten(n), ()),
    "trilp": (lambda n: rl.tril(X, n), ()),
    "mode": (lambda n: X.mode(n)[0], ()),
    "range": (lambda n: rl.arange(n), (-2, -1)),
    "arange2": (lambda n: rl.arange(0, 3, n), (-2, -1, 0)),
    "cosw": (lambda n: rl.kaiser_window(n), (-2, -1)),
    "bartlett": (lambda n: rl.bartlett_window(n), (-2, -1)),
    "trap": (lambda n: rl.trapezoid(V, dx=n), ()),
    "diff": (lambda n: rl.diff(V, n), (-2, -1)),
    "quant": (lambda n: rl.quantile(V, float(n)), (-2, -1)),
    "poly": (lambda n: rl.polygamma(n, V + 1), (-2, -1)),
    "mvl": (lambda n: rl.mvlgamma(V + 9, n), (-2, -1, 0)),
    "heav": (lambda n: V.tensor_split([n]), ()),
}


@pytest.mark.parametrize("n", [-2, -1, 0])
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_refused_where_pytorch_refuses_them(name: str, n: int):
    call, refused = CASES[name]
    if n not in refused:
        call(n)
        return
    with pytest.raises((rl.RushlightError, TypeError)):
        call(n)


COMPILED = ["repeat", "tile", "ri", "narrow", "unfold", "chunk", "tri", "tri2", "adapt", "expand2", "rand", "randint"]


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_too(name: str):
    call, refused = CASES[name]
    for n in refused:
        with pytest.raises(rl.RushlightError):
            rl.compile(lambda x, n=n: call(n))(V)


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_with_a_number_of_the_call_whose_result_nobody_uses(name: str, fullgraph: bool):
    call, refused = CASES[name]
    compiled = rl.compile(lambda x, n: (call(n), x + n)[1], fullgraph=fullgraph)
    for n in (1, -2):
        if n in refused:
            with pytest.raises(rl.RushlightError):
                compiled(V, n)
        else:
            assert compiled(V, n).tolist() == (V + n).tolist()
