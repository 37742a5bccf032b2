"""Parts of complex tensors are views: they are written to, differentiated and compiled as numpy's are."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.support.errors import RushlightError

NUMBERS = (np.arange(12.0) + 1j * np.arange(12.0)[::-1]).reshape(3, 4)


def write_parts(x):
    """The same statements for numpy's arrays and for tensors."""
    x.real[1:, ::2] *= 3
    x.imag[:, 1] = 7.0
    x[::2].real[...] += x[::2].imag
    x.T.imag[2] -= 0.5
    return x


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("compiled", [False, True])
def test_writes_to_parts_reach_the_tensor(dtype, compiled):
    for layout in (lambda a: a, lambda a: a[:, ::-1][:, ::-1], lambda a: np.asfortranarray(a), lambda a: a[1:, 1:]):
        expected = write_parts(layout(NUMBERS.astype(dtype)))
        own = NUMBERS.astype(dtype)
        x = rl.from_numpy(layout(own))
        (rl.compile(write_parts) if compiled else write_parts)(x)
        assert np.array_equal(x.numpy(), expected)


def test_parts_lie_in_the_same_memory():
    x = rl.from_numpy(NUMBERS.astype(np.complex64))[1:, 1:]
    assert x.real.stride() == (8, 2) and x.imag.storage_offset() == 11 and x.real.storage_offset() == 10
    assert x.imag.data_ptr() == x.data_ptr() + 4 == x.real.data_ptr() + 4
    parts = rl.view_as_real(x)
    assert parts.shape == (2, 3, 2) and parts.stride() == (8, 2, 1) and parts.dtype is rl.float32
    whole = rl.view_as_complex(parts)
    assert whole.data_ptr() == x.data_ptr() and whole.stride() == x.stride() and whole.dtype is rl.complex64
    assert rl.ones(2).real.dtype is rl.float32


def test_parts_can_be_assigned():
    x = rl.zeros(2, dtype=rl.complex128)
    x.real, x.imag = rl.tensor([1.0, 2.0]), 3
    assert x.tolist() == [1 + 3j, 2 + 3j]


def test_results_are_views_of_arguments():
    def parts(x, y):
        x.imag[0] = 9.0
        return x.real, rl.view_as_complex(y)[1:]

    step, before = rl.compile(parts), rl.compiler.graph_count()
    for rows in (2, 5):
        x, y = rl.zeros(rows, 3, dtype=rl.complex64), rl.zeros(2 * rows, 3, 2)[::2]
        real, whole = step(x, y)
        real += 1
        whole *= 0
        whole += 2j
        assert rl.view_as_real(x).sum() == 3 * rows + 27 and y.sum() == 6 * (rows - 1)
    assert rl.compiler.graph_count() == before + 1


VIEWS = {
    "real": lambda x: x.real * x.imag,
    "write": lambda x: _written(x * 1),
    "parts": lambda x: rl.view_as_real(x * x)[..., 1:].prod(-1),
    "back": lambda x: rl.view_as_complex(rl.view_as_real(x) * 2).abs(),
    "strides": lambda x: x.real.as_strided((2, 2), (4, 2), 2) * x.imag.as_strided((2, 2), (4, 2), 1),
}


def _written(x):
    x.real[1:].mul_(x.imag[:2])
    x.imag[:, :1] = 2.0
    return rl.view_as_real(x * x)


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_pass_through_parts(name):
    x = rl.from_numpy(NUMBERS + (0.3 - 0.7j)).requires_grad_()
    assert gradcheck(VIEWS[name], (x,)) and gradgradcheck(VIEWS[name], (x,))
    eager, compiled = [
        rl.autograd.grad((function(x) ** 2).sum(), x)[0] for function in (VIEWS[name], rl.compile(VIEWS[name]))
    ]
    assert eager.tolist() == compiled.tolist()


def test_strided_views_of_parts_of_a_program():
    def cleared(x):
        x.real.as_strided((2, 2), (2, 1)).zero_()
        return x + 1

    for function in (cleared, rl.compile(cleared)):
        x = rl.full((5,), 1 + 2j)
        assert function(x)[:3].tolist() == [1, 1, 2 + 2j]
        assert rl.view_as_real(x).reshape(-1).tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("code", "function"),
    [
        ("D001", lambda: rl.imag(rl.ones(3))),
        ("D001", lambda: rl.view_as_real(rl.ones(3))),
        ("D001", lambda: rl.view_as_complex(rl.ones(3, 2, dtype=rl.float16))),
        ("D001", lambda: rl.view_as_complex(rl.ones(3, 2, dtype=rl.complex64))),
        ("S003", lambda: rl.view_as_complex(rl.ones(2, 3))),
        ("S003", lambda: rl.view_as_complex(rl.tensor(1.0))),
        ("S006", lambda: rl.view_as_complex(rl.ones(2, 2).T)),
        ("S006", lambda: rl.view_as_complex(rl.ones(3, 3)[:, :2])),
        ("S006", lambda: rl.view_as_complex(rl.ones(5)[1:].reshape(2, 2))),
    ],
)
def test_what_has_no_parts_is_refused(code, function):
    with pytest.raises(RushlightError) as raised:
        function()
    assert raised.value.code == code


def test_a_compiled_view_that_begins_between_pairs_is_refused():
    step = rl.compile(lambda x: rl.view_as_complex(x))
    memory = rl.ones(9)
    assert step(memory[:8].reshape(4, 2)).tolist() == [1 + 1j] * 4
    with pytest.raises(RushlightError, match="multiple"):
        step(memory[1:].reshape(4, 2))
