"""Programs with distributions: divergences, gradients of samples, policies, compiled code, refused arguments."""

import math

import pytest

import rushlight as rl
from rushlight.distributions import (
    Bernoulli,
    Categorical,
    Cauchy,
    ExponentialFamily,
    Independent,
    Laplace,
    Normal,
    Uniform,
    constraints,
    kl_divergence,
    register_kl,
)


def numbers(*values):
    return rl.tensor(values, dtype=rl.float64)


FAMILIES = {
    "normal": lambda: Normal(numbers(0.5, -1.0), numbers(1.0, 2.0)),
    "laplace": lambda: Laplace(numbers(0.1, -1.5), numbers(1.5, 2.5)),
    "cauchy": lambda: Cauchy(numbers(0.1, -1.5), numbers(1.5, 2.5)),
    "uniform": lambda: Uniform(numbers(0.0, -1.0), numbers(1.0, 2.0)),
    "wide": lambda: Uniform(numbers(-1.0, -0.5), numbers(1.0, 4.0)),
    "narrow": lambda: Cauchy(numbers(0.3, 0.4), numbers(0.5, 0.7)),
    "coin": lambda: Bernoulli(numbers(0.2, 0.5)),
    "coins": lambda: Bernoulli(logits=numbers(0.3, -3.0)),
    "dice": lambda: Categorical(numbers(0.2, 0.3, 0.0)),
    "loaded": lambda: Categorical(logits=numbers(0.2, -0.3, 1.0)),
    "unit": lambda: Normal(numbers(0.0, 0.0), numbers(1.0, 1.0)),
}
DIVERGENCES = [  # recorded of PyTorch 2.13, in float64
    ("normal", "laplace", [0.2535922047, 0.1555037158]),
    ("normal", "uniform", [math.inf, math.inf]),
    ("normal", "wide", [math.inf, math.inf]),
    ("normal", "unit", [0.125, 1.306852819]),
    ("laplace", "normal", [1.150326245, 0.5963978013]),
    ("laplace", "uniform", [math.inf, math.inf]),
    ("laplace", "wide", [math.inf, math.inf]),
    ("laplace", "unit", [1.075326245, 5.684500621]),
    ("cauchy", "narrow", [0.2976324033, 0.6823750836]),
    ("uniform", "normal", [0.9606051999, 0.8884734251]),
    ("uniform", "wide", [0.6931471806, math.inf]),
    ("uniform", "unit", [1.0856052, 0.3203262445]),
    ("wide", "normal", [0.5174580193, 1.264258317]),
    ("wide", "uniform", [math.inf, math.inf]),
    ("wide", "unit", [0.3924580193, 1.789861136]),
    ("narrow", "cauchy", [0.2976324033, 0.6823750836]),
    ("coin", "coins", [0.2939528209, 0.855440171]),
    ("coins", "coin", [0.3374674837, 0.5022822095]),
    ("dice", "loaded", [0.9703938746]),
    ("loaded", "dice", [math.inf]),
    ("unit", "normal", [0.125, 0.4431471806]),
    ("unit", "laplace", [0.2142541971, 0.8139448142]),
    ("unit", "uniform", [math.inf, math.inf]),
    ("unit", "wide", [math.inf, math.inf]),
]


@pytest.mark.parametrize(("p", "q", "expected"), DIVERGENCES, ids=lambda item: item if isinstance(item, str) else "")
def test_divergences_equal_pytorchs(p, q, expected):
    found = kl_divergence(FAMILIES[p](), FAMILIES[q]()).reshape(-1).tolist()
    assert found == pytest.approx(expected, rel=1e-9)


def test_divergence_of_an_event_is_the_sum_over_it():
    pairs = [Independent(FAMILIES[name](), 1) for name in ("normal", "unit")]
    assert kl_divergence(*pairs).item() == pytest.approx(
        kl_divergence(FAMILIES["normal"](), FAMILIES["unit"]()).sum().item()
    )


def test_divergence_of_a_users_pair_goes_to_the_nearest_rule():
    class Mine(Normal):
        pass

    @register_kl(Mine, Normal)
    def mine(p, q):
        return numbers(42.0)

    assert kl_divergence(Mine(0.0, 1.0), Normal(0.0, 1.0)).item() == 42.0
    assert kl_divergence(Normal(0.0, 1.0), Mine(0.0, 1.0)).item() == 0.0


def test_samples_have_gradients_of_their_parameters():
    loc, scale = numbers(0.5).requires_grad_(), numbers(2.0).requires_grad_()
    for family in (Normal, Laplace, Cauchy):
        drawn = family(loc, scale).rsample((3,))
        by_loc, by_scale = rl.autograd.grad(drawn.sum(), (loc, scale))
        assert by_loc.item() == pytest.approx(3.0)
        assert by_scale.item() == pytest.approx(((drawn - loc) / scale).sum().item())
    assert not Normal(loc, scale).sample().requires_grad


def test_entropy_of_an_exponential_family_follows_from_its_normalizer():
    for name in ("normal", "coins"):
        distribution = FAMILIES[name]()
        assert ExponentialFamily.entropy(distribution).tolist() == pytest.approx(distribution.entropy().tolist())


def test_arguments_outside_their_constraints_are_refused():
    with pytest.raises(rl.RushlightError, match="scale does not satisfy"):
        Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="does not lie in the support"):
        Bernoulli(0.5).log_prob(rl.tensor(0.3))
    with pytest.raises(ValueError, match="either probs or logits"):
        Categorical()
    with pytest.raises(ValueError, match="broadcast"):
        FAMILIES["normal"]().log_prob(numbers(1.0, 2.0, 3.0))
    with pytest.raises(rl.NotSupportedError, match="no rule for Categorical and Normal"):
        kl_divergence(FAMILIES["dice"](), FAMILIES["normal"]())
    assert math.isnan(Normal(0.0, -1.0, validate_args=False).log_prob(rl.tensor(0.3)).item())


def test_constraints_answer_for_each_event():
    matrix = numbers([1.0, 0.0], [0.6, 0.8])
    assert bool(constraints.corr_cholesky.check(matrix)) and bool(constraints.lower_triangular.check(matrix))
    assert not bool(constraints.lower_triangular.check(matrix.mT)) and not bool(constraints.symmetric.check(matrix))
    parts = constraints.cat([constraints.positive, constraints.real], dim=-1, lengths=[1, 1])
    assert parts.check(numbers([-1.0, -1.0], [1.0, -1.0])).tolist() == [[False, True], [True, True]]
    layers = constraints.stack([constraints.positive, constraints.real], dim=0)
    assert layers.check(numbers([-1.0, 1.0], [-1.0, -1.0])).tolist() == [[False, True], [True, True]]
    assert constraints.independent(constraints.positive, 1).check(numbers([-1.0, 1.0], [1.0, 1.0])).tolist() == [
        False,
        True,
    ]
    assert constraints.integer_interval(0, 2).check(numbers(0.0, 0.5, 3.0)).tolist() == [True, False, False]


def test_compiled_policy_equals_eager():
    def loss(logits, action, reward):
        policy = Categorical(logits=logits)
        return -(policy.log_prob(action) * reward).mean() - 0.01 * policy.entropy().mean()

    logits = rl.randn(4, 3, requires_grad=True)
    action, reward = rl.tensor([0, 2, 1, 1]), rl.randn(4)
    compiled = rl.compile(loss, fullgraph=True)
    expected, found = loss(logits, action, reward), compiled(logits, action, reward)
    assert found.item() == expected.item()
    (first,), (second,) = rl.autograd.grad(expected, [logits]), rl.autograd.grad(found, [logits])
    assert rl.equal(first, second)


def test_actor_critic_learns_which_arm_pays():
    rl.manual_seed(0)
    actor, critic = rl.zeros(3, requires_grad=True), rl.zeros((), requires_grad=True)
    for _ in range(150):
        policy = Categorical(logits=actor)
        action = policy.sample((16,))
        reward = rl.tensor([0.0, 1.0, 0.2])[action]
        advantage = reward - critic
        loss = -(policy.log_prob(action) * advantage.detach()).mean() + advantage.square().mean()
        for parameter, gradient in zip((actor, critic), rl.autograd.grad(loss, (actor, critic)), strict=True):
            with rl.no_grad():
                parameter -= 0.3 * gradient
    assert Categorical(logits=actor).probs[1].item() > 0.9


def test_bound_of_a_variational_autoencoder_is_differentiable():
    rl.manual_seed(0)
    mean, spread = rl.zeros(5, 2, requires_grad=True), rl.zeros(5, 2, requires_grad=True)
    posterior = Independent(Normal(mean, spread.exp()), 1)
    prior = Independent(Normal(rl.zeros(2), rl.ones(2)), 1)
    code = posterior.rsample()
    decoded = Independent(Bernoulli(logits=code @ rl.ones(2, 4)), 1)
    bound = decoded.log_prob(rl.ones(5, 4)) - kl_divergence(posterior, prior)
    assert tuple(bound.shape) == (5,)
    by_mean, by_spread = rl.autograd.grad(-bound.mean(), (mean, spread))
    assert bool(by_mean.isfinite().all()) and bool((by_spread != 0).all())
