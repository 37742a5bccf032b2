"""`swap_tensors`, and whether warnings are given each time. Facts are PyTorch's."""

import warnings
import weakref

import pytest

import rushlight as rl
from rushlight.support.errors import RushlightError
from rushlight.support.errors import warn as warn_once
from rushlight.utils import swap_tensors


def failure(function, *args):
    with pytest.raises(RushlightError) as error:
        function(*args)
    return error.value.code


@pytest.mark.parametrize("size", [0, 1, 3])
def test_tensors_exchange_all_that_they_are(size):
    one, other = rl.zeros(size), rl.nn.Parameter(rl.ones(2, 3, dtype=rl.float64).t())
    one.mark = "one"
    view = one[:1]
    swap_tensors(one, other)
    assert type(one) is rl.nn.Parameter and one.shape == (3, 2) and one.stride() == (1, 3) and one.requires_grad
    assert type(other) is rl.Tensor and other.mark == "one" and other.shape == (size,) and not hasattr(one, "mark")
    other.fill_(5.0)
    assert view.tolist() == [5.0] * min(size, 1)
    (one * 2).sum().backward()
    assert one.grad.tolist() == [[2.0, 2.0]] * 3


def test_modules_and_compiled_functions_see_what_was_swapped():
    layer = rl.nn.Linear(2, 2, bias=False)
    compiled = rl.compile(layer)
    x = rl.ones(1, 2)
    with rl.no_grad():
        before = compiled(x)
        new = rl.nn.Parameter(layer.weight * 2)
        swap_tensors(layer.weight, new)
        assert compiled(x).equal(before * 2) and layer(x).equal(before * 2)


def test_what_is_not_swapped():
    one, other = rl.ones(2, requires_grad=True), rl.ones(2)
    kept = (one * 2).sum()
    assert failure(swap_tensors, one, other) == "A004"
    del kept
    reference = weakref.ref(other)
    assert failure(swap_tensors, rl.ones(1), other) == "A004" and reference() is other
    assert failure(swap_tensors, rl.ones(1), 3) == "A001"


def test_warnings_are_given_once_or_each_time():
    def given():
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(2):
                warn_once("A009", "it is deprecated", key="swapping")
        return len(found)

    assert not rl.is_warn_always_enabled() and given() == 1
    rl.set_warn_always(True)
    try:
        assert rl.is_warn_always_enabled() and given() == 2
    finally:
        rl.set_warn_always(False)
    assert given() == 0 and failure(rl.set_warn_always, 1) == "A001"
