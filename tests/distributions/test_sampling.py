"""Samples against distribution functions of scipy, by Kolmogorov and Smirnov; their gradients against inverse ones."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats

import rushlight as rl
from rushlight.autograd import gradcheck
from rushlight.distributions import (
    Beta,
    Binomial,
    Chi2,
    Dirichlet,
    FisherSnedecor,
    Gamma,
    Geometric,
    InverseGamma,
    LKJCholesky,
    Multinomial,
    NegativeBinomial,
    Poisson,
    StudentT,
    VonMises,
    Wishart,
)
from rushlight.ops.random_gammas import beta_slope
from rushlight.ops.record import OPERATORS
from rushlight.ops.special.incomplete import gamma_slope

COUNT = 4000
UNLIKELY = 1e-3


def float64(values, gradient=False):
    return rl.tensor(values, dtype=rl.float64, requires_grad=gradient)


CONTINUOUS = [
    (lambda: Gamma(float64(0.02), 2.0), scipy.stats.gamma(0.02, scale=0.5)),
    (lambda: Gamma(float64(0.5), 2.0), scipy.stats.gamma(0.5, scale=0.5)),
    (lambda: Gamma(30.0, 0.25), scipy.stats.gamma(30.0, scale=4.0)),
    (lambda: Chi2(3.0), scipy.stats.chi2(3.0)),
    (lambda: InverseGamma(2.5, 3.0), scipy.stats.invgamma(2.5, scale=3.0)),
    (lambda: FisherSnedecor(3.0, 5.0), scipy.stats.f(3.0, 5.0)),
    (lambda: StudentT(2.5, 1.0, 3.0), scipy.stats.t(2.5, 1.0, 3.0)),
    (lambda: Beta(0.25, 3.0), scipy.stats.beta(0.25, 3.0)),
    (lambda: Beta(float64(40.0), 9.0), scipy.stats.beta(40.0, 9.0)),
    (lambda: VonMises(0.0, 0.5), scipy.stats.vonmises(0.5)),
    (lambda: VonMises(0.0, 30.0), scipy.stats.vonmises(30.0)),
]


@pytest.mark.parametrize(("make", "reference"), CONTINUOUS)
def test_samples_follow_the_distribution_function(make, reference):
    rl.manual_seed(11)
    made = make()
    drawn = made.sample((COUNT,)).double().numpy()
    assert scipy.stats.kstest(drawn, reference.cdf).pvalue > UNLIKELY
    points = reference.ppf([0.1, 0.4, 0.9])
    dense = made.expand((3,)).log_prob(rl.tensor(points).to(made.mode.dtype)).double()
    assert dense.tolist() == pytest.approx(reference.logpdf(points).tolist(), rel=2e-5, abs=2e-5)


COUNTS = [
    (lambda: Poisson(0.5), scipy.stats.poisson(0.5)),
    (lambda: Poisson(float64(400.0)), scipy.stats.poisson(400.0)),
    (lambda: Geometric(0.25), scipy.stats.geom(0.25, loc=-1)),
    (lambda: Binomial(12, 0.25), scipy.stats.binom(12, 0.25)),
    (lambda: NegativeBinomial(2.5, 0.75), scipy.stats.nbinom(2.5, 0.25)),
]


@pytest.mark.parametrize(("make", "reference"), COUNTS)
def test_counts_are_as_frequent_as_their_chances_say(make, reference):
    rl.manual_seed(12)
    made = make()
    drawn = made.sample((COUNT,)).double().numpy()
    edges = np.unique(reference.ppf([0.05, 0.2, 0.4, 0.6, 0.8, 0.95]))
    below = np.concatenate([[0.0], reference.cdf(edges), [1.0]])
    seen = np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)
    kept = np.diff(below) * COUNT > 5
    expected = np.diff(below)[kept] * COUNT
    assert scipy.stats.chisquare(seen[kept], expected * seen[kept].sum() / expected.sum()).pvalue > UNLIKELY
    values = rl.tensor(edges).to(made.mean.dtype)
    found = made.expand((len(edges),)).log_prob(values).double().tolist()
    assert found == pytest.approx(reference.logpmf(edges).tolist(), rel=2e-5, abs=2e-5)


def test_parts_of_dirichlet_are_beta_numbers_and_add_up_to_1():
    rl.manual_seed(13)
    drawn = Dirichlet(float64([0.02, 0.5, 3.0])).sample((COUNT,))
    assert drawn.sum(-1).tolist() == pytest.approx([1.0] * COUNT)
    for part, alpha in enumerate((0.02, 0.5, 3.0)):
        reference = scipy.stats.beta(alpha, 3.52 - alpha)
        assert scipy.stats.kstest(drawn[:, part].numpy(), reference.cdf).pvalue > UNLIKELY


def test_tiny_concentrations_end_at_corners_and_not_in_nan():
    rl.manual_seed(14)
    drawn = Dirichlet(rl.full((100, 3), 1e-5)).sample()
    assert bool(drawn.isfinite().all()) and drawn.sum(-1).tolist() == pytest.approx([1.0] * 100)
    assert float(Gamma(1e-6, 1.0).sample((100,)).min()) > 0


def test_multinomial_counts_add_up():
    rl.manual_seed(15)
    probs = float64([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    drawn = Multinomial(10, probs).sample((COUNT,))
    assert bool((drawn.sum(-1) == 10).all()) and bool((drawn[:, 1] == float64([10.0, 0.0, 0.0])).all())
    means, spread = drawn[:, 0].mean(0), drawn[:, 0].var(0)
    assert means.tolist() == pytest.approx([2.0, 3.0, 5.0], abs=0.15)
    assert spread.tolist() == pytest.approx([1.6, 2.1, 2.5], rel=0.15)
    assert Multinomial(0, probs).sample().tolist() == [[0.0] * 3] * 2


def test_angles_lie_on_the_circle_around_their_mean():
    rl.manual_seed(16)
    drawn = VonMises(float64(3.0), 4.0).sample((COUNT,))
    assert bool((drawn.abs() <= math.pi).all())
    assert math.atan2(drawn.sin().mean().item(), drawn.cos().mean().item()) == pytest.approx(3.0, abs=0.05)
    length = scipy.special.i1e(4.0) / scipy.special.i0e(4.0)
    assert VonMises(float64(3.0), 4.0).variance.item() == pytest.approx(1 - length, rel=1e-12)


@pytest.mark.parametrize("concentration", [0.5, 1.0, 4.0])
def test_correlations_have_the_marginals_that_lewandowski_gives(concentration):
    rl.manual_seed(17)
    dim = 4
    drawn = LKJCholesky(dim, float64(concentration)).sample((COUNT,))
    assert bool(LKJCholesky.support.check(drawn).all())
    matrices = (drawn @ drawn.mT).numpy()
    half = concentration + (dim - 2) / 2
    for row in range(dim):
        for column in range(row):
            moved = (matrices[:, row, column] + 1) / 2
            assert scipy.stats.kstest(moved, scipy.stats.beta(half, half).cdf).pvalue > UNLIKELY / 10


def test_wishart_matrices_have_their_moments_and_densities():
    rl.manual_seed(18)
    matrix = float64([[2.0, 0.5], [0.5, 1.0]])
    made = Wishart(float64(5.5), matrix)
    drawn = made.sample((4 * COUNT,))
    assert drawn.mean(0).numpy() == pytest.approx(made.mean.numpy(), rel=0.05)
    assert drawn.var(0).numpy() == pytest.approx(made.variance.numpy(), rel=0.1)
    reference = scipy.stats.wishart(5.5, matrix.numpy())
    for index in range(3):
        point = drawn[index]
        assert made.log_prob(point).item() == pytest.approx(reference.logpdf(point.numpy()), rel=1e-10)


# Gradients of samples.


def _slope(function, parameter, chance):
    """The derivative of an inverse distribution function by its parameter, extrapolated from differences."""
    step = 1e-3 * parameter
    first, second = [
        (function(parameter + size, chance) - function(parameter - size, chance)) / (2 * size)
        for size in (step, 2 * step)
    ]
    return (4 * first - second) / 3


CHANCES = (1e-4, 0.02, 0.3, 0.5, 0.8, 0.99, 0.9999)


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.0, 20.0, 500.0])
def test_gamma_numbers_move_as_the_inverse_distribution_function_does(shape):
    drawn = [scipy.special.gammaincinv(shape, chance) for chance in CHANCES]
    expected = [_slope(scipy.special.gammaincinv, shape, chance) for chance in CHANCES]
    found = gamma_slope(float64([shape] * len(drawn)), float64(drawn)).tolist()
    assert found == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("other", [0.05, 0.7, 5.0, 300.0])
@pytest.mark.parametrize("shape", [0.05, 0.7, 5.0, 300.0])
def test_beta_numbers_move_as_the_inverse_distribution_function_does(shape, other):
    drawn = np.array([scipy.special.betaincinv(shape, other, chance) for chance in CHANCES])
    inside = (drawn > 1e-200) & (drawn < 0.999)
    inverse = lambda a, chance: scipy.special.betaincinv(a, other, chance)  # noqa: E731 - one expression
    expected = [_slope(inverse, shape, chance) for chance, taken in zip(CHANCES, inside, strict=True) if taken]
    x = float64(drawn[inside].tolist())
    found = beta_slope(float64([shape] * len(x)), float64([other] * len(x)), x) * (1 - x)
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


def test_slopes_are_differentiable():
    shapes = float64([0.3, 2.0, 30.0], True)
    drawn = float64([0.2, 3.0, 28.0], True)
    assert gradcheck(gamma_slope, (shapes, drawn))
    parts, others = float64([0.1, 0.7, 0.95], True), float64([0.5, 4.0, 1.5], True)
    assert gradcheck(beta_slope, (shapes, others, parts))


def test_ends_of_the_interval_do_not_move():
    drawn = float64([0.0, 1.0])
    assert beta_slope(float64([0.5, 2.0]), float64([0.5, 2.0]), drawn).tolist() == [0.0, 0.0]


def test_gradients_of_samples_reach_all_parameters():
    rl.manual_seed(19)
    shape, rate = float64(2.5, True), float64(0.5, True)
    drawn = Gamma(shape, rate).rsample((COUNT,))
    by_shape, by_rate = rl.autograd.grad(drawn.mean(), (shape, rate))
    assert by_rate.item() == pytest.approx(-(drawn / rate).mean().item())
    assert by_shape.item() == pytest.approx(2.0, rel=0.05)  # the mean is shape / rate
    parts = float64([0.5, 1.0, 2.5], True)
    drawn = Dirichlet(parts).rsample((COUNT,))
    (by_parts,) = rl.autograd.grad(drawn[:, 0].mean(), parts)
    assert by_parts.tolist() == pytest.approx([3.5 / 16, -0.5 / 16, -0.5 / 16], abs=0.01)  # of 0.5 / 4
    df = float64(7.0, True)
    for made, mean in ((StudentT(df), 0.0), (FisherSnedecor(3.0, df), -2 / 25), (Chi2(df), 1.0)):
        (by_df,) = rl.autograd.grad(made.rsample((4 * COUNT,)).mean(), df)
        assert by_df.item() == pytest.approx(mean, abs=0.05)
    first, second = float64(2.0, True), float64(3.0, True)
    of_both = rl.autograd.grad(Beta(first, second).rsample((COUNT,)).mean(), (first, second))
    assert [item.item() for item in of_both] == pytest.approx([3 / 25, -2 / 25], abs=0.005)
    factor = float64([[1.0, 0.0], [0.5, 2.0]], True)
    (by_factor,) = rl.autograd.grad(Wishart(df, scale_tril=factor).rsample((COUNT,)).mean(0).sum(), factor)
    assert by_factor.tril().numpy() == pytest.approx(7.0 * np.array([[3.0, 0.0], [3.0, 4.0]]), rel=0.05)


def test_compiled_samples_and_gradients_equal_eager_ones():
    def loss(shape, parts):
        return Gamma(shape, 2.0).rsample().log().sum() + (Dirichlet(parts).rsample() ** 2).sum()

    compiled = rl.compile(loss)
    results = []
    for function in (loss, compiled):
        rl.manual_seed(20)
        leaves = rl.rand(5, requires_grad=True), (rl.rand(4, 3) + 0.1).requires_grad_()
        result = function(*leaves)
        results.append((result, *rl.autograd.grad(result, leaves)))
    assert all(rl.equal(one, other) for one, other in zip(*results, strict=True))


def test_the_same_seed_draws_the_same_numbers():
    shapes = rl.full((3, 7), 0.7)
    for op in ("standard_gamma", "dirichlet"):
        drawn = [OPERATORS[op](shapes, seed=seed, ordinal=9) for seed in (5, 5, 6)]
        assert rl.equal(drawn[0], drawn[1]) and not rl.equal(drawn[0], drawn[2])
        assert OPERATORS[op](rl.zeros(0, 3), seed=5, ordinal=9).shape == (0, 3)


def test_wrong_parameters_are_refused():
    refused = [
        (lambda: Gamma(-1.0, 1.0), "concentration does not satisfy"),
        (lambda: Beta(1.0, 0.0), "concentration0 does not satisfy"),
        (lambda: Dirichlet(float64(1.0)), "needs a dim"),
        (lambda: Geometric(0.0), "greater than 0"),
        (lambda: Binomial(-1, 0.5), "total_count does not satisfy"),
        (lambda: NegativeBinomial(1.0, 1.0), "probs does not satisfy"),
        (lambda: Binomial(3), "either probs or logits"),
        (lambda: LKJCholesky(1), "two dims or more"),
        (lambda: Wishart(1.0, rl.eye(2)), "must exceed"),
        (lambda: Wishart(3.0), "exactly one of"),
        (lambda: Poisson(1.0).log_prob(rl.tensor(0.5)), "support"),
        (lambda: Multinomial(2, rl.ones(3) / 3).log_prob(rl.tensor([2.0, 1.0, 0.0])), "support"),
        (lambda: OPERATORS["standard_gamma"](rl.tensor([-1.0])), "0 and more"),
        (lambda: OPERATORS["dirichlet"](rl.tensor([math.nan, 1.0])), "0 and more"),
        (lambda: OPERATORS["von_mises"](rl.zeros(1), rl.tensor([-1.0])), "0 and more"),
    ]
    for make, text in refused:
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(rl.NotSupportedError, match="trials differ"):
        Binomial(float64([1.0, 2.0]), 0.5).enumerate_support()
    with pytest.raises(rl.NotSupportedError, match="entropy is not defined"):
        FisherSnedecor(1.0, 1.0).entropy()


def test_support_of_binomial_is_enumerated():
    made = Binomial(2, float64([0.25, 0.5]))
    assert made.enumerate_support().tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert made.enumerate_support(False).tolist() == [[0.0], [1.0], [2.0]]
    assert made.log_prob(made.enumerate_support()).exp().sum(0).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16])
def test_parts_of_a_whole_lie_inside_of_it(dtype):
    concentration = rl.tensor(1e-2, dtype=dtype)
    drawn = rl.distributions.Beta(concentration, concentration).sample((20_000,))
    assert not ((drawn == 0) | (drawn == 1)).any()
    assert (drawn < 0.1).double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_the_bregman_entropy_needs_a_carrier_measure():
    beta = rl.distributions.Beta(rl.tensor(1.5), rl.tensor(2.0))
    with pytest.raises(rl.RushlightError, match="carrier measure"):
        rl.distributions.ExponentialFamily.entropy(beta)
