"""Results of compiled functions lie as those of the same function called eagerly."""

from __future__ import annotations

import rushlight as rl
from rushlight.nn import functional as F


def written_transposed(x):
    y = rl.zeros(3, 2)
    y.copy_(x.T)
    return y + 0, y


def test_a_tensor_that_was_written_to_keeps_its_layout():
    x = rl.rand(2, 3)
    for eager, compiled in zip(written_transposed(x), rl.compile(written_transposed)(x), strict=True):
        assert compiled.stride() == eager.stride()
        assert rl.equal(compiled, eager)


def test_a_gradient_lies_as_its_parameter_does():
    weight = rl.rand(6, 4, requires_grad=True)

    def step(x):
        weight.grad = None
        (x @ weight.T).sum().backward()

    rl.compile(step)(rl.rand(3, 4))
    assert weight.grad.stride() == weight.stride()


def test_attention_of_a_strided_query_is_resized_and_differentiated():
    # A resize scatters its gradient, in a plan whose row blocks have scratch memory of their own.
    def resized(q, k, v):
        y = F.scaled_dot_product_attention(q, k, v)
        return F.interpolate(y, size=(8, y.shape[1]), mode="bilinear")

    gradients = []
    for run in (resized, rl.compile(resized)):
        q = rl.arange(63.0).as_strided((2, 2, 1, 1), (1, 2, 6, 30)).requires_grad_()
        k, v = (rl.arange(4.0).view(2, 2, 1, 1).requires_grad_(), rl.ones(1, 1, 1, 1, requires_grad=True))
        run(q, k, v).square().sum().backward()
        gradients.append((q.grad, k.grad, v.grad))
    for eager, compiled in zip(*gradients, strict=True):
        assert rl.equal(compiled, eager)
