"""assert_close: what is close, and what the message says when it is not."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.testing import assert_close


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (rl.tensor([1.0, 2.0]), rl.tensor([1.0, 2.0 + 1e-6])),
        (rl.tensor([1.0]).to(rl.bfloat16), rl.tensor([1.01]).to(rl.bfloat16)),
        (rl.tensor([1, 2]), rl.tensor([1, 2])),
        (1.0, 1.0 + 1e-9),
        ([rl.ones(2), {"a": 3}], (rl.ones(2), {"a": 3})),
        (rl.tensor([float("inf")]), rl.tensor([float("inf")])),
        (np.ones(2), np.ones(2)),
        (rl.zeros(0), rl.zeros(0)),
    ],
)
def test_close(actual, expected):
    assert_close(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (rl.tensor([1.0, 2.0]), rl.tensor([1.0, 2.1]), "Mismatched elements: 1 / 2 (50.0%)"),
        (rl.tensor([1.0, 2.0]), rl.tensor([1.0, 2.1]), "at index (1,) (up to 1e-05 allowed)"),
        (rl.tensor([1, 3]), rl.tensor([1, 2]), "Tensor-likes are not equal!"),
        (rl.tensor([float("nan")]), rl.tensor([float("nan")]), "Mismatched elements: 1 / 1"),
        (rl.tensor(1.0), rl.tensor(2.0), "Scalars are not close!"),
        (rl.ones(2), rl.ones(3), "attribute 'shape' do not match"),
        (rl.ones(2), rl.ones(2, dtype=rl.float64), "attribute 'dtype' do not match"),
        (rl.ones(2), rl.ones(2, device="meta"), "attribute 'device' do not match"),
        ([1, 2], [1], "length of the sequences mismatch: 2 != 1"),
        ({"a": 1}, {"b": 1}, "missing ['b'], additional ['a']"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "at item ['a']\nat item [1]"),
        ("a", 1, "Cannot compare str and int"),
        (["a"], ["b"], "'a' and 'b' are not equal"),
    ],
)
def test_not_close(actual, expected, text):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected)
    assert text in str(caught.value)


def test_options():
    assert_close(rl.tensor([float("nan")]), rl.tensor([float("nan")]), equal_nan=True)
    assert_close(rl.ones(2), rl.ones(2, dtype=rl.float64), check_dtype=False)
    assert_close(1.0, 1.1, rtol=0.2, atol=0.0)
    with pytest.raises(AssertionError, match="attribute 'stride"):
        assert_close(rl.ones(2, 3), rl.ones(3, 2).mT, check_stride=True)
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match=r"^seen: Scalars"):
        assert_close(1, 2, msg=lambda text: "seen: " + text)
    with pytest.raises(ValueError, match="both rtol and atol"):
        assert_close(1, 2, rtol=0.1)
