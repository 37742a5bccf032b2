"""Library kernels against ordinary operators in float64, with sizes 0, 1 and odd ones; their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import rushlight as rl
from rushlight.autograd import gradcheck
from rushlight.nn import functional, kernels

Args = tuple[Any, ...]


class Case(NamedTuple):
    """A kernel, its arguments for two sizes, its meaning, and which arguments have gradients."""

    run: Callable[..., Any]
    inputs: Callable[[int, int], Args]
    meaning: Callable[..., Any]
    differentiable: tuple[int, ...]


def log_rows(m: int, n: int) -> rl.Tensor:
    return rl.randn(m, n).log_softmax(1)


def labels_of(m: int, n: int) -> rl.Tensor:
    labels = rl.randint(0, max(n, 1), (m,))
    return rl.where(rl.arange(m) % 3 == 2, -100, labels)


def rms_norm(x, w):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w


def rotary(x, cos, sin):
    first, second = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return rl.cat([first * cos - second * sin, second * cos + first * sin], -1)


def jsd_rows(x, y, beta):
    q, p = (1 - beta) * x.exp(), beta * y.exp()
    mixed = (p + q).log()
    return {0: (y.exp() * (y - x)), 1: (x.exp() * (x - y))}.get(beta, p * (y - mixed) + q * (x - mixed)).sum(1)


def masked_jsd(x, y, labels, beta):
    kept = labels != -100
    return rl.where(kept, jsd_rows(x, y, beta), 0).sum() / kept.sum()


def linear_jsd(x, w, y, v):
    return jsd_rows((x @ w.mT).log_softmax(1), (y @ v.mT).log_softmax(1), 0.3).sum() / x.shape[0]


def int4(x, packed, scale):
    weight = rl.stack([(packed << 4) >> 4, packed >> 4], 1).reshape(x.shape[1], packed.shape[1])
    return x @ weight.to(x.dtype) * scale


def jagged_outer(x, y, offsets):
    bounds = offsets.tolist()
    pairs = [x[a:b].mT @ y[a:b] for a, b in itertools.pairwise(bounds)]
    return rl.stack(pairs)


def routing(logits, k):
    tops, places = logits.topk(k, dim=1)
    return tops.softmax(1), places


def paged(q, keys, values, table, lengths):
    rows = []
    for s, count in enumerate(lengths.tolist()):
        k, v = (pages[table[s]].reshape(-1, *pages.shape[2:])[:count] for pages in (keys, values))
        scores = rl.einsum("hd,nhd->hn", q[s], k) / q.shape[2] ** 0.5
        rows.append(rl.einsum("hn,nhd->hd", scores.softmax(1), v))
    return rl.stack(rows) if rows else q


def scanned(x, step, decay, into, out_of):
    state, found = rl.zeros(x.shape[0], *decay.shape, dtype=x.dtype), []
    for t in range(x.shape[1]):
        state = state * (step[:, t, :, None] * decay).exp() + (step * x)[:, t, :, None] * into[:, t, None]
        found.append((state * out_of[:, t, None]).sum(2))
    return rl.stack(found, 1) if found else x


def jagged_inputs(m: int, n: int) -> Args:
    middle = rl.randint(0, m + 1, (n,)).sort()[0]
    return rl.randn(m, 3), rl.randn(m, n), rl.cat([rl.tensor([0]), middle, rl.tensor([m])])


def scan_inputs(m: int, n: int) -> Args:
    return rl.randn(2, m, n), rl.rand(2, m, n), -rl.rand(n, 3), rl.randn(2, m, 3), rl.randn(2, m, 3)


def paged_inputs(m: int, n: int) -> Args:
    pages = (rl.randn(5, 3, 2, n + 1), rl.randn(5, 3, 2, n + 1))
    return rl.randn(m, 2, n + 1), *pages, rl.randint(0, 5, (m, 4)), rl.randint(1, 13, (m,))


CASES = {
    "rms_norm": Case(kernels.rms_norm, lambda m, n: (rl.randn(2, m, n), rl.randn(n)), rms_norm, (0, 1)),
    "rotary": Case(
        kernels.rotary,
        lambda m, n: (rl.randn(2, m, 3, 2 * n), rl.randn(m, n), rl.randn(m, n)),
        rotary,
        (0, 1, 2),
    ),
    "swiglu": Case(
        kernels.swiglu,
        lambda m, n: (rl.randn(2, m, n), rl.randn(2, m, n)),
        lambda gate, up: functional.silu(gate) * up,
        (0, 1),
    ),
    "kl": Case(
        lambda x, p: kernels.kl(x, p, reduction="none"),
        lambda m, n: (log_rows(m, n), rl.randn(m, n).softmax(1)),
        lambda x, p: functional.kl_div(x, p, reduction="none").sum(1),
        (0,),
    ),
    "jsd": Case(
        lambda x, y, labels: kernels.jsd(x, y, labels, 0.3),
        lambda m, n: (log_rows(m + 1, n), log_rows(m + 1, n), labels_of(m + 1, n)),
        lambda x, y, labels: masked_jsd(x, y, labels, 0.3),
        (0, 1),
    ),
    "linear_cross_entropy": Case(
        kernels.linear_cross_entropy,
        lambda m, n: (rl.randn(m + 1, 5), rl.randn(n + 1, 5), labels_of(m + 1, n + 1)),
        lambda x, w, labels: functional.cross_entropy(x @ w.mT, labels),
        (0, 1),
    ),
    "linear_jsd": Case(
        lambda *args: kernels.linear_jsd(*args, beta=0.3),
        lambda m, n: (rl.randn(m + 1, 5), rl.randn(n + 1, 5), rl.randn(m + 1, 4), rl.randn(n + 1, 4)),
        linear_jsd,
        (0, 1, 2, 3),
    ),
    "int4_mm": Case(
        kernels.int4_mm,
        lambda m, n: (rl.randn(m, 2 * n), rl.randint(-128, 128, (n, 7), dtype=rl.int8), rl.rand(7)),
        int4,
        (0, 2),
    ),
    "jagged_dense": Case(
        kernels.jagged_dense,
        lambda m, n: (rl.randn(m, n), rl.randint(0, 3, (m,)), rl.randn(3, n, 4)),
        lambda x, segments, w: (x[:, :, None] * w[segments]).sum(1),
        (0, 2),
    ),
    "jagged_outer": Case(kernels.jagged_outer, jagged_inputs, jagged_outer, (0, 1)),
    "top_k_routing": Case(
        lambda x: kernels.top_k_routing(x, 2), lambda m, n: (rl.randn(m, n + 2),), lambda x: routing(x, 2), (0,)
    ),
    "paged_attention": Case(kernels.paged_attention, paged_inputs, paged, (0, 1, 2)),
    "selective_scan": Case(kernels.selective_scan, scan_inputs, scanned, (0, 1, 2, 3, 4)),
}
SIZES = ((0, 3), (1, 1), (3, 0), (7, 5), (130, 33))


def wide(args: Args) -> Args:
    return tuple([arg.double() if arg.dtype.is_floating_point else arg for arg in args])


def leaves(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.generated
@pytest.mark.row("7.4")
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_is_what_it_means(name: str):
    case = CASES[name]
    rl.manual_seed(0)
    compiled = rl.compile(lambda *args: case.run(*args), fullgraph=True)
    for sizes in SIZES:
        args = case.inputs(*sizes)
        found = leaves(case.run(*args))
        for one, expected in zip(found, leaves(case.meaning(*wide(args))), strict=True):
            assert one.shape == expected.shape, sizes
            assert rl.allclose(one.double(), expected.double(), rtol=1e-4, atol=1e-4, equal_nan=True), sizes
        if sizes == SIZES[-2]:
            assert all(rl.equal(one, other) for one, other in zip(leaves(compiled(*args)), found, strict=True))


@pytest.mark.generated
@pytest.mark.parametrize("name", CASES)
def test_the_gradients_of_a_kernel_are_those_of_its_values(name: str):
    case = CASES[name]
    rl.manual_seed(1)
    args = wide(case.inputs(3, 2))
    for at in case.differentiable:
        args[at].requires_grad_()
    assert gradcheck(lambda *args: leaves(case.run(*args))[0], args)


@pytest.mark.parametrize("beta", [0, 0.1, 0.5, 1])
def test_divergences_are_defined_where_probabilities_vanish(beta: float):
    x = rl.tensor([[0.0, -float("inf"), -200.0]])
    found = kernels.jsd(x, x, beta=beta if beta in (0.1, 0.5) else 0.5)
    assert found.item() == 0
    assert kernels.jsd(log_rows(3, 4), log_rows(3, 4), beta=beta).item() > 0


def test_a_long_scan_does_not_overflow():
    x = rl.ones(1, 1000, 1)
    found = kernels.selective_scan(x, 20 * x, -rl.ones(1, 1), x, x)
    assert rl.allclose(found[0, 1:], rl.tensor(20.0))


def test_a_sequence_without_places_gives_zeros():
    pages = rl.full((2, 3, 1, 4), float("nan"))
    pages[1] = 1.0
    found = kernels.paged_attention(rl.ones(2, 1, 4), pages, pages, rl.tensor([[0], [1]]), rl.tensor([0, 2]))
    assert found.tolist() == [[[0.0] * 4], [[1.0] * 4]]


def test_narrow_floats_are_summed_in_wide_ones():
    x = rl.randn(4, 300).bfloat16()
    expected = rms_norm(x.double(), rl.ones(300, dtype=rl.float64))
    found = kernels.rms_norm(x, rl.ones(300, dtype=rl.bfloat16))
    assert found.dtype is rl.bfloat16
    assert ((found.double() - expected).abs() <= expected.abs() * 2**-8).all()


@pytest.mark.parametrize(
    ("code", "run"),
    [
        ("A002", lambda: kernels.jsd(rl.zeros(1, 1), rl.zeros(1, 1), beta=1.5)),
        ("A002", lambda: kernels.jsd(rl.zeros(0, 0), rl.zeros(0, 0), beta=-0.5)),
        ("A002", lambda: kernels.linear_jsd(*[rl.zeros(0, 0)] * 4, beta=float("nan"))),
        ("A002", lambda: kernels.kl(rl.zeros(1, 1), rl.zeros(1, 1), reduction="most")),
        ("A002", lambda: kernels.top_k_routing(rl.zeros(1, 3), 4)),
        ("S003", lambda: kernels.int4_mm(rl.zeros(1, 3), rl.zeros(1, 1, dtype=rl.int8))),
        ("S003", lambda: kernels.rotary(rl.zeros(1, 1, 1, 3), rl.zeros(1, 1), rl.zeros(1, 1))),
    ],
)
def test_what_a_kernel_refuses(code: str, run: Callable[[], object]):
    with pytest.raises(rl.RushlightError) as caught:
        run()
    assert caught.value.code == code
