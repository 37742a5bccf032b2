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


def test_gradcheck_compares_forward_derivatives():
    x = rl.tensor([0.5, -1.5], dtype=rl.float64, requires_grad=True)
    assert gradcheck(lambda x: (x.sin(), x.sum() * 2), (x,), check_forward_ad=True)
    z = rl.tensor([0.5 + 1j, -1.5 - 0.25j], dtype=rl.complex128, requires_grad=True)
    assert gradcheck(lambda z: (z * z, z.abs(), z.conj() * 1j), (z,), check_forward_ad=True)
    assert not gradcheck(WrongCube.apply, (x,), check_forward_ad=True, check_backward_ad=False, raise_exception=False)
    assert gradcheck(WrongCube.apply, (x,), check_backward_ad=False)


def test_gradgradcheck_takes_torchs_arguments():
    x = rl.tensor([0.5, -1.5], dtype=rl.float64, requires_grad=True)
    named = {"gen_non_contig_grad_outputs": True, "nondet_tol": 0.1, "check_undefined_grad": False, "fast_mode": False}
    assert gradgradcheck(lambda x: x**3, (x,), **named)
    for refused in ({"check_rev_over_rev": False}, {"check_fwd_over_rev": True}, {"check_batched_forward_grad": True}):
        with pytest.raises(NotImplementedError) as caught:
            gradgradcheck(lambda x: x**3, (x,), **refused)
        assert caught.value.code == "A006"


def test_grad_and_backward_take_torchs_arguments():
    x, unused = rl.tensor([2.0], requires_grad=True), rl.ones(1, requires_grad=True)
    assert grad(x**3, {"x": x})["x"].tolist() == [12.0]
    with pytest.raises(rl.AutogradError):
        grad(x**3, (x, unused), None, None, False, True)  # only_inputs, not allow_unused
    with pytest.warns(UserWarning, match="only_inputs is deprecated"):
        grad(x**3, x, only_inputs=False)
    with pytest.warns(UserWarning, match="grad_variables is deprecated"):
        backward(x**3, grad_variables=rl.tensor([2.0]))
    assert x.grad.tolist() == [24.0]
    backward(x**3, rl.tensor([1.0]), None, False, None, {"x": x})
    assert x.grad.tolist() == [36.0]
