"""Transforms of functions against closed forms, finite differences and each other, nested and compiled."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from rushlight.support.errors import RushlightError
from rushlight.utils._pytree import tree_leaves


def data(*shape):
    return rl.tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def near(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def energy(x):
    return (x.sin() * x).sum()


def energy_slope(x):
    return np.cos(x) * x + np.sin(x)


def energy_bend(x):
    return np.diag(2 * np.cos(x) - x * np.sin(x))


def test_derivatives_have_their_closed_forms():
    x = data(5)
    a = x.numpy()
    near(grad(energy)(x), energy_slope(a))
    gradient, value = grad_and_value(energy)(x)
    near(value, np.sum(np.sin(a) * a))
    near(gradient, energy_slope(a))
    near(jacrev(rl.exp)(x), np.diag(np.exp(a)))
    near(jacfwd(rl.exp)(x), np.diag(np.exp(a)))
    near(hessian(energy)(x), energy_bend(a))
    near(jvp(rl.sin, (x,), (x,))[1], np.cos(a) * a)
    result, pullback = vjp(rl.sin, x)
    near(result, np.sin(a))
    near(pullback(x)[0], np.cos(a) * a)
    result, derivative = linearize(rl.sin, x)
    near(derivative(x), np.cos(a) * a)
    near(derivative(2 * x), 2 * np.cos(a) * a)


def test_transforms_nest():
    x = data(3, 4)
    near(vmap(grad(energy))(x), energy_slope(x.numpy()))
    near(vmap(hessian(energy))(x), np.stack([energy_bend(row) for row in x.numpy()]))
    near(grad(lambda t: vmap(grad(energy))(t).sum())(x), np.stack([np.diag(energy_bend(row)) for row in x.numpy()]))
    near(vmap(vmap(lambda a, b: a * b + a.sin(), (None, 0)), (0, None))(x[0], x[1]),
         x[0].numpy()[:, None] * x[1].numpy() + np.sin(x[0].numpy())[:, None])  # fmt: skip
    near(jacrev(jacfwd(energy))(x[0]), energy_bend(x[0].numpy()))


@pytest.mark.parametrize("fullgraph", [True, False])
def test_compiled_functions_are_mapped(fullgraph):
    """As they are: `vmap` wants to see their operators."""
    compiled = rl.compile(energy, fullgraph=fullgraph)
    x = data(3, 4)
    near(compiled(x[0]), energy(x[0]))
    for _ in range(2):
        near(vmap(compiled)(x), rl.stack([energy(row) for row in x]))
        near(vmap(grad(compiled))(x), energy_slope(x.numpy()))
        near(vmap(lambda a, b: compiled(b) * a, (0, None))(x, x[0]), energy(x[0]) * x)


def test_transforms_are_what_they_are_under_compiled_autograd():
    x = data(4)

    def everything():
        transformed = [one(energy)(x) for one in (grad, jacrev, jacfwd, hessian)]
        return [*transformed, rl.autograd.functional.jacobian(rl.sin, x, vectorize=True)]

    wanted = everything()
    with rl.compiler.compiled_autograd.enable():
        found = everything()
    assert [one.numpy().tobytes() for one in found] == [one.numpy().tobytes() for one in wanted]


def test_leaves_of_the_caller_keep_their_gradients():
    x, w = data(4), data(4).requires_grad_()
    inner = grad(lambda t: (t * t * w).sum())(x)
    inner.sum().backward()
    near(w.grad, 2 * x.numpy())
    assert x.grad is None


def test_gradients_of_each_sample_and_ensembles_of_modules():
    rl.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)) for _ in range(2)]
    parameters, buffers = stack_module_state(models)
    x = data(5, 4)
    found = vmap(lambda p, b, t: functional_call(models[0], (p, b), (t,)), (0, 0, None))(parameters, buffers, x)
    near(found.detach(), np.stack([model(x).detach().numpy() for model in models]))

    def loss(named, sample):
        return (functional_call(models[0], named, (sample,)) ** 2).sum()

    named = {name: value.detach() for name, value in models[0].named_parameters()}
    each = vmap(grad(loss), (None, 0))(named, x)
    for row in range(5):
        for name, value in grad(loss)(named, x[row]).items():
            near(each[name][row], value, 1e-4)


def test_an_inner_step_is_differentiated():
    weight, x = data(4), data(4)

    def adapted(w):
        step = w - 0.1 * grad(lambda v: ((v * x) ** 2).sum())(w)
        return ((step * x) ** 2).sum()

    a, w = x.numpy().astype(np.float64), weight.numpy().astype(np.float64)
    factor = 1 - 0.2 * a * a
    near(grad(adapted)(weight), 2 * w * (a * factor) ** 2, 1e-4)


@pytest.mark.parametrize(
    "transform",
    [vmap(energy), vmap(grad(energy)), jacrev(rl.sin), hessian(energy)],
    ids=["vmap", "each", "jacrev", "hessian"],
)
def test_compiled_equals_eager(transform):
    x = data(3, 4)
    compiled = rl.compile(transform)
    assert compiled(x).numpy().tobytes() == transform(x).numpy().tobytes()


def test_places_of_the_batch():
    x = data(2, 3, 4)
    near(vmap(rl.sin, in_dims=1, out_dims=2)(x), np.moveaxis(np.sin(x.numpy()), 1, 2))
    near(
        vmap(lambda pair: pair["a"] + pair["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": x[0]}),
        x.numpy() + x[0].numpy(),
    )
    near(vmap(rl.sin, chunk_size=2)(data(5, 2)), np.sin(data(5, 2).numpy()))
    assert vmap(rl.sin)(rl.zeros(0, 3)).shape == (0, 3)
    same = vmap(lambda t: t + rl.rand(2), randomness="same")(rl.zeros(3, 2))
    assert bool((same[0] == same[1]).all())
    other = vmap(lambda t: t + rl.rand(2), randomness="different")(rl.zeros(3, 2))
    assert not bool((other[0] == other[1]).any())


@pytest.mark.parametrize(
    ("code", "run"),
    [
        ("A006", lambda x: vmap(lambda t: t + rl.rand(2))(x)),
        ("A006", lambda x: vmap(lambda t: t if t.sum() > 0 else -t)(x)),
        ("A006", lambda x: vmap(lambda t: x.add_(t))(x)),
        ("A002", lambda x: vmap(rl.sin, in_dims=5)(x)),
        ("A002", lambda x: vmap(rl.add)(x, x[:1])),
        ("A002", lambda x: grad(rl.sin)(x)),
        ("A002", lambda x: jvp(rl.sin, (x,), (x[0],))),
    ],
)
def test_mistakes_are_refused(code, run):
    with pytest.raises(RushlightError) as caught:
        run(data(3, 2))
    assert caught.value.code == code


def filled(x, y):
    full, ones = x.new_full((3,), 2.0), x.new_ones(3)
    ones[0] = x
    full.mul_(y)
    empty = x.new_empty(3)
    empty.copy_(y)
    return full + empty * ones + x.new_zeros(3).add_(x)


@pytest.mark.parametrize("compiled", [False, True])
def test_new_tensors_have_memory_for_each_place(compiled):
    """Also those that two levels map; without a level they are as ever."""
    x, y = data(4), data(4, 3)
    rows = rl.stack([filled(*pair) for pair in zip(x, y, strict=True)])
    near((rl.compile(vmap(filled)) if compiled else vmap(filled))(x, y), rows)
    nested, twice = vmap(vmap(filled)), (rl.stack([x, x]), rl.stack([y, y]))
    near((rl.compile(nested) if compiled else nested)(*twice), rl.stack([rows, rows]))
    near(vmap(grad(lambda a, b: filled(a, b).sum()))(x, y), 3 + y[:, 0])


def test_one_result_may_have_its_dim_in_a_tuple():
    x = data(3, 2)
    near(vmap(rl.sin, out_dims=(1,))(x), np.sin(x.numpy()).T)
    near(vmap(rl.sin, out_dims=(1,), chunk_size=2)(x), np.sin(x.numpy()).T)


def overwritten(x):
    y = x * x
    view = y.t()
    view[2:4, 2:4] *= 2
    view[:2, :2].diagonal().sin_()
    view = view[1:3, 1:3]
    view.cos_()
    view.mul_(view.t().clone())
    return view


def test_what_is_overwritten_at_each_place_has_its_gradient():
    x, g = data(3, 4, 4), data(3, 2, 2)
    pulled = vmap(lambda x, g: vjp(overwritten, x)[1](g)[0])(x, g)
    step = 1e-6
    for place in range(3):
        wide = x[place].double()
        expected = np.zeros((4, 4))
        for at in np.ndindex(4, 4):
            moved = [wide.clone(), wide.clone()]
            moved[0][at] += step
            moved[1][at] -= step
            slope = (overwritten(moved[0]) - overwritten(moved[1])) / (2 * step)
            expected[at] = float((slope * g[place]).sum())
        near(pulled[place], expected, 1e-4)


def test_places_of_a_part_lie_by_strides_where_they_do():
    whole = rl.arange(30.0).reshape(5, 6)
    found = vmap(lambda row: row.as_strided((2,), (2,), 8))(whole[1:, 1:])
    assert found.tolist() == [[8.0 + 6 * row, 10.0 + 6 * row] for row in range(4)]
    found = rl.compile(vmap(lambda row: row.as_strided((2, 2), (1, 2), 1)))(whole)
    assert found.tolist() == [[[1.0 + 6 * row, 3 + 6 * row], [2 + 6 * row, 4 + 6 * row]] for row in range(5)]


def test_orders_and_choices_are_drawn_at_each_place():
    def both(x):
        return rl.randperm(40) + x.long() * 0, rl.multinomial(x, 40, True)

    for function in (both, rl.compile(both, fullgraph=True)):
        for randomness in ("same", "different"):
            orders, chosen = vmap(function, randomness=randomness)(rl.ones(3, 40))
            assert orders.sort(1).values.tolist() == [list(range(40))] * 3
            assert chosen.dtype is rl.int64 and int(chosen.min()) >= 0 and int(chosen.max()) < 40
            assert bool((orders[0] == orders[1]).all()) is (randomness == "same")
            assert bool((chosen[0] == chosen[1]).all()) is (randomness == "same")
    rl.manual_seed(3)
    eager = rl.randperm(30)
    rl.manual_seed(3)
    assert rl.compile(lambda: rl.randperm(30), fullgraph=True)().tolist() == eager.tolist()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "transform",
    [
        jacrev(lambda x, y: {"a": x.outer(y), "b": (y * 2,)}, argnums=(0, 1)),
        jacfwd(lambda x, y: (x.outer(y), rl.ones(2)), argnums=(1, 0)),
        jacrev(lambda x, y: x.cumsum(0) * y[0], chunk_size=2),
        vmap(lambda x, y: x.sin() * y, (0, None), chunk_size=2),
    ],
    ids=["jacrev", "jacfwd", "jacobian in chunks", "vmap in chunks"],
)
def test_directions_of_several_leaves_and_chunks_compile(transform, dynamic):
    args = data(5), data(2)
    found, expected = (function(*args) for function in (rl.compile(transform, dynamic=dynamic), transform))
    for one, other in zip(tree_leaves(found), tree_leaves(expected), strict=True):
        assert one.shape == other.shape and one.tolist() == other.tolist()


def test_compiled_functions_have_jacobians():
    """They run as they are where derivatives are mapped."""
    x = data(4)
    compiled = rl.compile(energy)
    near(compiled(x), energy(x))
    near(jacrev(compiled)(x), energy_slope(x.numpy()))
    near(jacfwd(compiled)(x), energy_slope(x.numpy()))
    near(hessian(compiled)(x), energy_bend(x.numpy()))
    near(grad(lambda t: grad(compiled)(t).sum())(x), np.diag(energy_bend(x.numpy())))
    near(jvp(compiled, (x,), (x,))[1], (energy_slope(x.numpy()) * x.numpy()).sum())
    near(vmap(linearize(compiled, x)[1])(rl.eye(4)), energy_slope(x.numpy()))


def test_what_a_mapped_function_does_is_done_at_every_call():
    seen = []

    def noted(x):
        seen.append(tuple(x.shape))
        return x * len(seen)

    compiled = rl.compile(vmap(noted))
    for count in range(1, 5):
        near(compiled(rl.ones(3, 2)), np.full((3, 2), count))
    assert seen == [(2,)] * 4
    with pytest.raises(RushlightError) as caught:
        rl.compile(vmap(noted), fullgraph=True)(rl.ones(3, 2))
    assert caught.value.code == "C003"


def test_batch_norms_without_running_statistics_are_mapped():
    module = rl.nn.Sequential(rl.nn.Linear(3, 2), rl.nn.BatchNorm1d(2))
    assert rl.func.replace_all_batch_norm_modules_(module) is module
    norm = module[1]
    assert norm.running_mean is None and norm.running_var is None and not norm.track_running_stats
    x = rl.arange(24.0).reshape(2, 4, 3).sin()
    assert rl.vmap(module)(x).tolist() == rl.stack([module(x[0]), module(x[1])]).tolist()


READS = {
    "index": lambda rows, at: rows[at],
    "index_select": lambda rows, at: rl.index_select(rows, 0, at.reshape(1)),
    "gather": lambda rows, at: rows.gather(0, at.reshape(1)),
    "take": rl.take,
    "embedding": lambda rows, at: rl.nn.functional.embedding(at, rows[:, None]),
    "index_add": lambda rows, at: rows.index_add(0, at.reshape(1), rows[:1]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", READS)
def test_an_index_out_of_range_of_its_place_is_an_error(name, compiled):
    mapped = rl.func.vmap(READS[name])
    call = rl.compile(mapped) if compiled else mapped
    x = rl.arange(12.0).reshape(3, 4)
    expected = rl.stack([READS[name](row, rl.tensor(at)) for row, at in zip(x, (0, 3, 1), strict=True)])
    assert call(x, rl.tensor([0, 3, 1])).tolist() == expected.tolist()
    with pytest.raises(rl.RushlightError) as caught:
        call(x, rl.tensor([0, 4, 1]))  # inside of the batch's memory, outside of the row
    assert caught.value.code == "I001"


def test_pullbacks_are_differentiable_in_their_cotangents():
    x, g = rl.tensor(0.7), rl.tensor(2.0)
    _, pullback = rl.func.vjp(rl.sin, x)
    assert rl.allclose(rl.func.grad(lambda g: pullback(g)[0])(g), x.cos())
    assert rl.allclose(rl.func.grad(lambda g: pullback(g * g)[0])(g), 2 * g * x.cos())
    assert rl.allclose(rl.func.jvp(lambda g: pullback(g)[0], (g,), (rl.tensor(3.0),))[1], 3 * x.cos())
    tracked = g.clone().requires_grad_()
    pullback(tracked)[0].backward()
    assert rl.allclose(tracked.grad, x.cos())
    assert not pullback(g)[0].requires_grad


def test_pullbacks_record_nothing_without_gradients():
    x = rl.tensor(3.0, requires_grad=True)
    out, pullback = rl.func.vjp(lambda a: a**2, x)
    with rl.no_grad():
        (y,) = pullback(rl.tensor(1.0))
    assert y.item() == 6.0 and not y.requires_grad and out.requires_grad
    assert pullback(rl.tensor(1.0))[0].requires_grad
