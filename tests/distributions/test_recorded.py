"""Gamma's kin, counts, angles and matrices against recorded numbers of PyTorch in float64; all divergences too."""

import contextlib
import json
import math
from pathlib import Path

import pytest
from tests.distributions import torch_cases as cases

import rushlight as rl
import rushlight.distributions as distributions

RECORD = json.loads(Path(__file__).with_name("recorded_torch.json").read_text())
IDS = [f"{name}-{'-'.join(parameters)}" for name, parameters, _, _ in cases.CASES]
# PyTorch's Bessel functions are polynomials that are good to seven digits, and Multinomial's entropy has a term in
# float32. Its trigamma function, a gradient, is good to nine digits.
TOLERANCE = {"VonMises": 5e-6, "Multinomial": 1e-7}
OF_GRADIENTS = 1e-8
# PyTorch has infinity where [0, 1] is what q allows, or more: the ends count as outside.
CONTAINED = {
    "ContinuousBernoulli Uniform": (1, math.log(4)),
    "Uniform ContinuousBernoulli": (0, 0.006840721103852587),
}


def float64(values, gradient=False):
    return rl.tensor(values, dtype=rl.float64, requires_grad=gradient)


def numbers(tensor):
    return tensor.detach().to(rl.float64).reshape(-1).tolist()


def approximately(values, name="", tolerance=1e-10):
    tolerance = TOLERANCE.get(name, tolerance)
    return pytest.approx([float(item) for item in values], rel=tolerance, abs=tolerance, nan_ok=True)


@pytest.mark.parametrize(("case", "recorded"), list(zip(cases.CASES, RECORD["cases"], strict=True)), ids=IDS)
def test_numbers_and_gradients_equal_pytorchs(case, recorded):
    name, parameters, others, value = case
    for question, answer in recorded["answers"].items():
        leaves = {key: float64(item, True) for key, item in parameters.items()}
        made = getattr(distributions, name)(**leaves, **others)
        found = getattr(made, question)
        if question in cases.OF_VALUES:
            found = found(float64(value))
        elif question in cases.METHODS:
            found = found()
        assert list(found.shape) == answer["shape"], question
        assert numbers(found) == approximately(answer["value"], name), question
        for key, expected in answer["gradients"].items():
            (gradient,) = rl.autograd.grad(found.sum(), [leaves[key]], retain_graph=True)
            by = numbers(gradient)
            if key == "scale_tril":  # what lies above the diagonal is no parameter
                del by[1], expected[1]
            assert by == approximately(expected, name, OF_GRADIENTS), f"{question} by {key}"


@pytest.mark.parametrize(("case", "recorded"), list(zip(cases.CASES, RECORD["cases"], strict=True)), ids=IDS)
def test_shapes_equal_pytorchs(case, recorded):
    name, parameters, others, value = case
    made = getattr(distributions, name)(**{key: float64(item) for key, item in parameters.items()}, **others)
    shapes = recorded["shapes"]
    assert list(made.batch_shape) == shapes["batch_shape"] and list(made.event_shape) == shapes["event_shape"]
    assert made.has_rsample == shapes["has_rsample"] and made.has_enumerate_support == shapes["has_enumerate_support"]
    wide = made.expand((2, *made.batch_shape))
    assert tuple(wide.sample((3,)).shape) == (3, 2, *made.batch_shape, *made.event_shape)
    of_wide, of_made = wide.log_prob(float64(value)), made.log_prob(float64(value))
    assert rl.equal(of_wide, of_made.expand(of_wide.shape))
    if not made.has_rsample:
        with pytest.raises(rl.NotSupportedError, match="no gradients"):
            made.rsample()


@pytest.mark.generated
@pytest.mark.parametrize("case", cases.CASES, ids=IDS)
def test_compiled_distributions_equal_eager_ones(case):
    name, parameters, others, value = case

    def ask(*leaves):
        made = getattr(distributions, name)(**dict(zip(parameters, leaves, strict=True)), **others)
        total = made.log_prob(float64(value)).sum()
        with contextlib.suppress(rl.NotSupportedError):
            total = total + made.entropy().sum()
        return total, made.sample()

    results = []
    for function in (ask, rl.compile(ask)):
        leaves = [float64(item, True) for item in parameters.values()]
        rl.manual_seed(5)
        total, drawn = function(*leaves)
        results.append([total, drawn, *rl.autograd.grad(total, leaves)])
    assert all(rl.allclose(one, other, 0, 0, True) for one, other in zip(*results, strict=True))


def test_compiled_divergences_equal_eager_ones():
    for name in ("InverseGamma", "Wishart", "Gumbel", "LowRankMultivariateNormal"):
        first, second = cases.FAMILIES[name]

        def ask(*leaves, name=name, first=first, second=second):
            values = iter(leaves)
            made = [getattr(distributions, name)(**{key: next(values) for key in given}) for given in (first, second)]
            return distributions.kl_divergence(*made)

        leaves = [float64(item) for item in (*first.values(), *second.values())]
        assert rl.equal(ask(*leaves), rl.compile(ask, fullgraph=False)(*leaves))  # Wishart's requires gradients
    few, many = [distributions.Binomial(count, 0.5) for count in (2, 3)]
    assert rl.compile(distributions.kl_divergence)(many, many).item() == 0.0
    assert distributions.kl_divergence(many, few).item() == math.inf
    with pytest.raises(rl.NotSupportedError, match="more trials"):
        distributions.kl_divergence(few, many)


@pytest.mark.parametrize("pair", list(RECORD["divergences"]))
def test_divergences_equal_pytorchs(pair):
    p, q = pair.split()
    left, right = [
        {key: float64(item) for key, item in given.items()} for given in (cases.FAMILIES[p][0], cases.FAMILIES[q][1])
    ]
    found = distributions.kl_divergence(getattr(distributions, p)(**left), getattr(distributions, q)(**right))
    expected = list(RECORD["divergences"][pair])
    if pair in CONTAINED:
        position, right = CONTAINED[pair]
        assert expected[position] == "inf"
        expected[position] = right
    assert numbers(found) == approximately(expected)


def test_divergences_that_pytorch_lacks_are_refused():
    names = list(cases.FAMILIES)
    made = {
        name: getattr(distributions, name)(**{key: float64(item) for key, item in cases.FAMILIES[name][0].items()})
        for name in names
    }
    for p in names:
        for q in names:
            if f"{p} {q}" not in RECORD["divergences"]:
                with pytest.raises(rl.NotSupportedError, match="kl_divergence"):
                    distributions.kl_divergence(made[p], made[q])


def test_a_divergence_from_itself_is_zero():
    for name, (first, second) in cases.FAMILIES.items():
        for given in (first, second):
            p, q = [
                getattr(distributions, name)(**{key: float64(item) for key, item in given.items()}) for _ in range(2)
            ]
            assert all(math.isclose(item, 0.0, abs_tol=1e-12) for item in numbers(distributions.kl_divergence(p, q)))
