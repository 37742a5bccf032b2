"""Results of compiled functions lie as those of the same function called eagerly."""

from __future__ import annotations

import rushlight as rl


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
