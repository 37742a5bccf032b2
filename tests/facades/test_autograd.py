"""rushlight.autograd: gradients by name, and checks of derivatives that can fail."""

import pytest

import rushlight as rl
from rushlight.autograd import Function, backward, grad, gradcheck, gradgradcheck


def test_grad_and_backward_by_name():
    x = rl.tensor([2.0, 3.0], requires_grad=True)
    (found,) = grad((x * x).sum(), x)
    assert found.tolist() == [4, 6] and x.grad is None
    backward([(x * x).sum(), x.sum()])
    assert x.grad.tolist() == [5, 7]


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


class WrongCube(Cube):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * x * g


def test_gradcheck_accepts_right_and_refuses_wrong_derivatives():
    x = rl.tensor([0.5, -1.5], dtype=rl.float64, requires_grad=True)
    assert gradcheck(Cube.apply, (x,)) and gradgradcheck(Cube.apply, (x,))
    assert gradcheck(lambda x: rl.nn.functional.gelu(x).sum(), (x,))
    with pytest.raises(rl.AutogradError, match="differ") as caught:
        gradcheck(WrongCube.apply, (x,))
    assert caught.value.code == "G013"
    assert not gradcheck(WrongCube.apply, (x,), raise_exception=False)
