"""Custom functions on the tape."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager.autograd.check import gradcheck, gradgradcheck
from rushlight.eager.autograd.driver import grad
from rushlight.eager.autograd.function import Function, once_differentiable
from rushlight.eager.creation import tensor
from rushlight.support.errors import RushlightError

RNG = np.random.default_rng(0)


def leaf(*shape):
    return tensor(RNG.standard_normal(shape), requires_grad=True)


def code_of(function):
    with pytest.raises(RushlightError) as error:
        function()
    return error.value.code


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        (result,) = ctx.saved_tensors
        return g * result


def test_a_function_saves_its_output_and_differentiates_twice():
    assert gradcheck(Exp.apply, (leaf(3),))
    assert gradgradcheck(Exp.apply, (leaf(3),))
    x = leaf(2)
    y = Exp.apply(x)
    assert y.grad_fn.name() == "ExpBackward"
    y.sum().backward()
    assert code_of(y.sum().backward) == "G001"


class Pair(Function):
    """Two tensors and a number in, two tensors out; context set up apart."""

    @staticmethod
    def forward(x, y, scale):
        return x * y * scale, (x > 0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, ctx.scale = inputs
        ctx.save_for_backward(x, y)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, unused):
        y = ctx.saved_tensors[1]
        assert unused.tolist() == [False, False]
        assert ctx.needs_input_grad == (True, False, False)
        return g * y * ctx.scale, None, None


def test_a_function_with_several_inputs_and_outputs():
    x, y = leaf(2), tensor(RNG.standard_normal(2))
    product, positive = Pair.apply(x, y, 3.0)
    assert positive.requires_grad is False
    product.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * y.numpy())


def test_a_function_may_change_its_input_in_place():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(2)
    y = x * 1
    z = Double.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert code_of(lambda: Double.apply(leaf(2))) == "G002"


def test_once_differentiable_functions_refuse_a_second_order():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = leaf(2)
    (found,) = grad(Square.apply(x).sum(), x, create_graph=True)
    assert code_of(found.sum().backward) == "G008"
    (found,) = grad(Square.apply(x).sum(), x, create_graph=True)
    assert code_of(lambda: grad((found + x * x).sum(), x)) == "G008"  # it is on the way to x
    scale = leaf(2)
    (found,) = grad((Square.apply(x) * scale.exp()).sum(), x, create_graph=True)
    assert code_of(lambda: grad((found + scale).sum(), scale)) == "G008"


def test_a_function_that_returns_the_wrong_number_of_gradients():
    class Short(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g

    assert code_of(lambda: Short.apply(leaf(2), leaf(2)).sum().backward()) == "G007"


def test_an_input_that_is_returned_becomes_a_result():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = leaf(2)
    y = Same.apply(x)
    assert y is not x
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_split_takes_sizes_in_a_list():
    x = rl.zeros(2, 10)
    assert [tuple(part.shape) for part in x.split([3, 7], 1)] == [(2, 3), (2, 7)]
    assert [tuple(part.shape) for part in rl.split(x, [3, 7], dim=1)] == [(2, 3), (2, 7)]


def test_tile_owns_its_memory():
    """A copy that was expanded first must not be a view with repeated elements."""
    found = rl.tensor([[1.0], [2.0]]).tile(2)
    found[0, 0] = 9
    assert found.tolist() == [[9.0, 1.0], [2.0, 2.0]]
