"""Results of compiled functions lie as those of the same function called eagerly."""

from __future__ import annotations

from typing import Any

import pytest

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


def of_rows(x):
    return x * 2 if x.is_contiguous() else x * 3


def of_channels(x):
    return x * 2 if x.is_contiguous(memory_format=rl.channels_last) else x * 3


LAYOUTS = {
    of_rows: [rl.ones(3, 2).mT, rl.ones(2, 3), rl.ones(1, 3), rl.ones(3, 1).mT, rl.ones(1, 3).mT, rl.ones(3, 0).mT],
    of_channels: [rl.ones(2, 3, 4, 5), rl.ones(2, 1, 4, 5), rl.ones(2, 3, 1, 1), rl.ones(2, 3, 4, 5).mT],
}


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("function", LAYOUTS)
def test_sizes_that_decide_whether_a_tensor_is_contiguous_are_guarded(function, fullgraph):
    for first in LAYOUTS[function]:
        compiled = rl.compile(function, fullgraph=fullgraph)
        for x in (first, *LAYOUTS[function]):
            assert compiled(x).tolist() == function(x).tolist()


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_copy_stays_one_when_its_sizes_are_known_later(backend: str) -> None:
    def written(x: Any) -> Any:
        y = x * 1
        result = y.repeat(2, 1)
        result[0] = 0  # decides that a size is 1: the repeated rows could be a view then
        return result, y.sum()

    options = {} if backend == "native" else {"backend": backend}
    result, total = rl.compile(written, **options)(rl.ones(1, 3, requires_grad=True))
    assert result.tolist() == [[0.0] * 3, [1.0] * 3] and total.item() == 3.0
