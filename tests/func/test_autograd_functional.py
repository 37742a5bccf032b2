"""`autograd.functional` and `autograd.forward_ad`: PyTorch's recorded numbers, differences, errors, compiled."""

import numpy as np
import pytest
from tests.func import derivative_cases

import rushlight as rl
from opcheck import refused
from rushlight.autograd import forward_ad, functional

RECORDED = np.load(derivative_cases.RECORDED)


def test_derivatives_agree_with_recorded_numbers():
    found = derivative_cases.results(rl, functional)
    names = {name.partition(":")[0] for name in RECORDED.files}
    assert set(found) == names and len(names) > 20
    for name, arrays in found.items():
        assert len(arrays) == sum(key.startswith(f"{name}:") for key in RECORDED.files), name
        for at, array in enumerate(arrays):
            np.testing.assert_allclose(array, RECORDED[f"{name}:{at}"], rtol=1e-12, atol=1e-14, err_msg=name)


def test_compiled_derivatives_equal_eager_ones():
    x, y = rl.tensor([0.3, 0.5, -1.2]), rl.tensor([1.0, 2.0])

    def scalar(x, y):
        return (x.unsqueeze(-1) * y).sin().sum() * x.prod()

    def everything(x, y):
        jacobian = functional.jacobian(lambda x: (x * x).sin(), x, vectorize=True)
        rows = functional.jacobian(lambda x: x.exp(), x)
        return jacobian, rows, functional.hvp(scalar, (x, y), (x, y)), functional.vjp(rl.sin, x, x)

    for eager, compiled in zip(
        derivative_cases.flat(everything(x, y)),
        derivative_cases.flat(rl.compile(everything)(x, y)),
        strict=True,
    ):
        np.testing.assert_array_equal(eager, compiled)


def test_jacobian_is_that_of_differences():
    x = np.array([0.4, -0.7])
    matrix = rl.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=rl.float64)

    def function(x):
        return (matrix @ x).tanh()

    found = functional.jacobian(function, rl.tensor(x)).numpy()
    steps = [np.eye(2)[at] * 1e-6 for at in range(2)]
    columns = [(function(rl.tensor(x + step)).numpy() - function(rl.tensor(x - step)).numpy()) / 2e-6 for step in steps]
    np.testing.assert_allclose(found, np.stack(columns, 1), rtol=1e-8)


def test_results_have_history_only_with_create_graph():
    x = rl.ones(2, requires_grad=True)
    plain = [functional.jacobian(rl.exp, x), *functional.vjp(rl.exp, x, x), *functional.jvp(rl.exp, x, x)]
    assert not any(one.requires_grad for one in plain)
    weight = rl.ones(2, requires_grad=True)
    functional.jacobian(lambda x: x * weight, rl.ones(2), create_graph=True).sum().backward()
    assert weight.grad.tolist() == [1.0, 1.0]


def test_create_graph_records_under_no_grad():
    w = rl.tensor([2.0, 3.0], requires_grad=True)
    x = rl.tensor([0.5, -1.5])
    with rl.no_grad():
        bend = functional.hessian(lambda x: (w * x**3).sum(), x, create_graph=True)
        plain = functional.hessian(lambda x: (w * x**3).sum(), x)
    assert bend.requires_grad and not plain.requires_grad
    assert rl.autograd.grad(bend.sum(), w)[0].tolist() == [3.0, -9.0]


def test_sizes_without_elements_and_without_dims():
    assert functional.jacobian(rl.sin, rl.ones(0)).shape == (0, 0)
    assert functional.jacobian(lambda x: x[:0], rl.ones(3)).shape == (0, 3)
    assert functional.jacobian(rl.sin, rl.tensor(0.0)).item() == 1.0
    assert functional.hessian(lambda x: x**3, rl.tensor(2.0)).item() == 12.0
    infinite = functional.jacobian(lambda x: (x, 1 / x), rl.tensor([0.0]))
    assert infinite[0].tolist() == [[1.0]] and infinite[1].tolist() == [[-np.inf]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: functional.jacobian(lambda x, y: x * 2, (x, x), strict=True), r"independent of input \[1\]"),
        (lambda x: functional.jacobian(lambda x: rl.ones(2), x, strict=True), "does not require gradient"),
        (lambda x: functional.hessian(rl.sum, x, strict=True), "does not require gradient"),
        (lambda x: functional.vjp(rl.sin, x), "v can only be None"),
        (lambda x: functional.jvp(rl.sin, x), "v can only be None"),
        (lambda x: functional.vjp(rl.sin, x, rl.ones(3)), "does not have the shape"),
        (lambda x: functional.vjp(rl.sin, x, (x, x)), "v has 2 tensors"),
        (lambda x: functional.hessian(rl.sin, x), "a single element"),
        (lambda x: functional.jacobian(rl.sin, x, strict=True, vectorize=True), "not with vectorize"),
    ],
)
def test_what_does_not_fit_is_an_error(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(rl.ones(2))


def test_wrong_types_and_strategies_are_errors():
    with pytest.raises(TypeError, match="index 0 has type int"):
        functional.jacobian(lambda x: 3, rl.ones(2))
    with pytest.raises(TypeError, match="the inputs must be"):
        functional.jacobian(rl.sin, [rl.ones(2)])
    with pytest.raises(ValueError, match="strategy"):
        functional.jacobian(rl.sin, rl.ones(2), strategy="sideways")


def test_duals_carry_tangents_through_functions():
    x, direction = rl.randn(3, dtype=rl.float64), rl.randn(3, dtype=rl.float64)

    def function(x):
        return (x * x).sin().cumsum(0) * x.sum()

    with forward_ad.dual_level() as level:
        assert level == 0
        dual = forward_ad.make_dual(x, direction)
        primal, tangent = forward_ad.unpack_dual(function(dual))
        assert forward_ad.unpack_dual(dual).tangent is direction and rl.equal(forward_ad.unpack_dual(dual).primal, x)
        assert forward_ad.unpack_dual(x * 2).tangent is None
        assert forward_ad.unpack_dual(dual * 0 + 1).tangent.tolist() == [0.0] * 3
    assert not primal.requires_grad and not tangent.requires_grad and rl.equal(primal, function(x))
    step = 1e-6 * direction
    differences = (function(x + step) - function(x - step)) / 2e-6
    assert rl.allclose(tangent, differences, rtol=1e-6, atol=1e-8)
    assert forward_ad.unpack_dual(function(dual)).tangent is None


def test_duals_of_several_tensors_and_of_modules():
    layer = rl.nn.Linear(3, 2)
    x = rl.randn(4, 3)
    tangents = {name: rl.randn(*p.shape) for name, p in layer.named_parameters()}
    with forward_ad.dual_level():
        duals = {name: forward_ad.make_dual(p, tangents[name]) for name, p in layer.named_parameters()}
        primal, tangent = forward_ad.unpack_dual(rl.func.functional_call(layer, duals, x))
    assert rl.allclose(primal, layer(x)) and rl.allclose(tangent, x @ tangents["weight"].mT + tangents["bias"])
    tangent.sum().backward() if tangent.requires_grad else primal.sum().backward()
    assert layer.weight.grad is not None


def test_tangents_can_be_differentiated():
    x, weight = rl.tensor([1.0, 2.0]), rl.ones(2, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, rl.tensor([3.0, 4.0]))
        forward_ad.unpack_dual(dual * dual * weight).tangent.sum().backward()
    assert weight.grad.tolist() == [6.0, 16.0]


def test_levels_are_entered_and_ended_in_order():
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(rl.ones(1), rl.ones(1))
    with pytest.raises(RuntimeError, match="not entered"):
        forward_ad.exit_dual_level()
    with rl.no_grad(), pytest.raises(RuntimeError, match="nothing is recorded"):
        forward_ad.enter_dual_level()
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode"):
            forward_ad.enter_dual_level()
        with pytest.raises(ValueError, match="shape and dtype"):
            forward_ad.make_dual(rl.ones(1), rl.ones(2))
        with rl.no_grad(), pytest.raises(RuntimeError, match="nothing is recorded"):
            forward_ad.make_dual(rl.ones(1), rl.ones(1))
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(rl.ones(1), rl.ones(1))


def test_what_is_computed_from_duals_under_no_grad_is_refused():
    """It has a tangent, of which the tape knows nothing: an older tangent, or none, would be silently wrong."""
    x, direction = rl.tensor([1.0, 2.0]), rl.tensor([1.0, 10.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        for call in (lambda: dual * 3, lambda: rl.zeros(2).copy_(dual), lambda: dual.clone().mul_(2)):
            with rl.no_grad(), refused("A006"):
                call()
        with rl.no_grad():
            assert (dual > 1).tolist() == [False, True] and (dual.detach() * 2).tolist() == [2, 4]
        assert forward_ad.unpack_dual(dual * dual).tangent.tolist() == [2, 40]
    square = rl.no_grad(lambda x: x * x)
    for transform in (lambda: rl.func.jvp(square, (x,), (direction,)), lambda: rl.func.jacfwd(square)(x)):
        with refused("A006"):
            transform()
    assert rl.func.jacrev(square)(x).tolist() == [[0, 0], [0, 0]] and square(x).tolist() == [1, 4]


def test_duals_carry_tangents_through_the_graphs_of_a_function():
    x, direction = rl.randn(3), rl.randn(3)

    def tangents(x):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, direction)
            first = forward_ad.unpack_dual(dual * x).tangent
            float(x.sum())  # ends a graph
            return first, forward_ad.unpack_dual((dual * 2).sin()).tangent

    expected = tangents(x)
    for found in (rl.compile(tangents, backend="eager")(x), rl.compile(tangents)(x)):
        assert [value.tolist() for value in found] == [value.tolist() for value in expected]
        assert not any(value.requires_grad for value in found)
