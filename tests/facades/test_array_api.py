"""The namespace of the array API standard: names, promotion, and what of its arrays differs from PyTorch's tensors."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight.compat import array_api as xp
from rushlight.support.errors import RushlightError


def code_of(call):
    with pytest.raises(RushlightError) as caught:
        call()
    return caught.value.code


def test_every_listed_name_exists():
    for module in (xp, xp.linalg, xp.fft):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert xp.__array_api_version__ == "2024.12"


@pytest.mark.core
def test_tensors_find_the_namespace_and_get_arrays_back():
    source = rl.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert source.__array_namespace__() is xp
    assert source.__array_namespace__(api_version="2022.12") is xp
    assert code_of(lambda: source.__array_namespace__(api_version="2035.12")) == "A002"
    found = xp.sum(xp.exp(source) * 2)
    assert type(found) is xp.Array and isinstance(found, rl.Tensor)
    found.backward()
    np.testing.assert_allclose(source.grad.numpy(), 2 * np.exp(source.detach().numpy()), rtol=1e-6)
    assert source.to_device("cpu") is source
    assert code_of(lambda: source.to_device("cpu", stream=1)) == "A002"


def test_promotion_is_numpys_within_a_kind_also_without_dims():
    names = [*xp.__array_namespace_info__().dtypes(kind="integral")]
    for one in names:
        for other in names:
            expected = np.promote_types(one, other)
            a, b = xp.ones(3, dtype=getattr(xp, one)), xp.ones((), dtype=getattr(xp, other))
            if expected.kind == "f":  # of uint64 with signed integers there is none
                assert code_of(lambda a=a, b=b: a + b) == "D001"
            else:
                assert (a + b).dtype.name == xp.multiply(b, a).dtype.name == expected.name
    wide = xp.ones((), dtype=xp.float64)
    assert (xp.ones(2) * wide).dtype is xp.float64 and (wide * xp.ones(2)).dtype is xp.float64
    assert (rl.ones(2) * rl.ones((), dtype=rl.float64)).dtype is rl.float32  # PyTorch's rule for tensors
    assert xp.concat([xp.ones(1, dtype=xp.uint16), xp.ones(1, dtype=xp.int16)]).dtype is xp.int32


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((xp.uint8, 3), xp.uint8),
        ((xp.bool, 3), xp.int64),
        ((xp.int32, 2.0), xp.float32),
        ((xp.float64, 1j), xp.complex128),
        ((xp.float32, True), xp.float32),
        ((xp.float32, xp.complex128), xp.complex128),
    ],
)
def test_numbers_raise_the_kind_alone(values, expected):
    assert xp.result_type(*values) is expected


def test_result_type_needs_a_dtype():
    assert code_of(lambda: xp.result_type(1, 2.0)) == "A001"
    assert code_of(lambda: xp.add(1, 2)) == "A001"
    assert code_of(lambda: xp.add(xp.ones(2), "a")) == "A001"


def test_kinds_of_dtypes():
    assert xp.isdtype(xp.uint8, "unsigned integer") and not xp.isdtype(xp.uint8, ("signed integer", "bool"))
    assert xp.isdtype(rl.bfloat16, "real floating") and xp.isdtype(rl.bfloat16, "numeric")
    assert xp.isdtype(xp.bool, xp.bool) and not xp.isdtype(xp.bool, "numeric")
    assert code_of(lambda: xp.isdtype(xp.bool, "logical")) == "A002"
    assert code_of(lambda: xp.isdtype(np.int8, "integral")) == "D004"
    assert [dtype.kind in "iu" for dtype in (xp.int8, xp.uint8, xp.float32)] == [True, True, False]
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.int8)
    assert not xp.can_cast(xp.ones(2, dtype=xp.int64), xp.uint8) and xp.can_cast(xp.float32, xp.complex64)
    assert xp.finfo(xp.ones(2, dtype=xp.complex64)).dtype is xp.float32 and xp.finfo(xp.float64).eps == 2.0**-52
    assert xp.iinfo(xp.int8).dtype is xp.int8 and xp.iinfo(xp.asarray(1)).max == 2**63 - 1
    assert xp.can_cast(xp.uint16, xp.complex64) and not xp.can_cast(xp.complex64, xp.uint16)
    assert (xp.ones(1, dtype=xp.uint32) * xp.ones(1)).dtype is xp.float32
    assert code_of(lambda: xp.can_cast("float32", xp.float64)) == "D004"


def test_the_namespace_says_what_it_has():
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] is xp.float32
    assert info.default_dtypes()["indexing"] is xp.nonzero(xp.ones(1))[0].dtype
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}
    assert info.capabilities()["max dimensions"] == 64
    assert code_of(lambda: info.dtypes(kind="text")) == "A002"


SLICES = [
    slice(None, None, -1),
    slice(4, 1, -2),
    slice(1, 4, -1),
    slice(-1, -9, -3),
    slice(None, 2, -1),
    slice(9, None, -4),
]


@pytest.mark.parametrize("cut", SLICES)
def test_slices_go_backward_for_reading_and_writing(cut):
    source = np.arange(30.0).reshape(5, 6)
    array = xp.asarray(source.copy())
    for index in ((cut,), (..., cut), (cut, None, 2), (None, cut, cut), (2, cut)):
        assert array[index].tolist() == source[index].tolist()
        written, expected = xp.asarray(source.copy()), source.copy()
        value = np.full(expected[index].shape, -1.0) - np.arange(expected[index].size).reshape(expected[index].shape)
        expected[index] = value
        written[index] = xp.asarray(value)
        assert written.tolist() == expected.tolist()
    assert array[xp.asarray([3, 0]), cut].tolist() == source[[3, 0], cut].tolist()


def test_places_named_by_arrays_are_written():
    array = xp.zeros((3, 2))
    array[xp.asarray([2, 0])] = xp.asarray([1.0, 2.0])
    assert array.tolist() == [[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]]
    assert type(rl.exp(array)) is rl.Tensor and type(xp.exp(array)) is xp.Array


def test_a_mask_without_elements_selects_nothing():
    array = xp.ones((3, 2))
    assert array[xp.zeros((0,), dtype=xp.bool)].shape == (0, 2)
    assert array[xp.zeros((3, 0), dtype=xp.bool)].shape == (0,)
    array[xp.zeros((0, 2), dtype=xp.bool)] = 5
    assert array.tolist() == [[1.0, 1.0]] * 3
    assert array[array > 0].shape == (6,)
    assert code_of(lambda: array[xp.zeros((0, 3), dtype=xp.bool)]) == "I005"


def test_writing_in_place_converts_what_promotes_to_the_target():
    array = xp.asarray([9, 7], dtype=xp.uint16)
    other = xp.asarray([2, 4], dtype=xp.uint8)
    held = array
    array += other
    array //= other
    array %= other
    array <<= other
    assert array is held and array.dtype is xp.uint16 and array.tolist() == [4, 32]
    with pytest.raises(RushlightError):
        other += array * 1.5


def test_attributes_are_the_standards():
    array = xp.zeros((2, 3))
    assert array.size == 6 and array.size() == (2, 3) and array.size(1) == 3
    assert array.T.shape == (3, 2) and type(array.mT) is xp.Array
    assert code_of(lambda: xp.zeros((2, 3, 4)).T) == "S002"
    assert type(-array) is type(+array) is type(abs(array)) is type(~(array == 0)) is xp.Array
    held = array
    array += 1
    assert array is held and array.tolist() == [[1.0] * 3] * 2
    assert hash(array) == hash(held)


def test_data_becomes_an_array_with_and_without_copies():
    source = np.arange(4, dtype=np.float64)
    assert np.shares_memory(xp.asarray(source).numpy(), source)
    assert not np.shares_memory(xp.asarray(source, copy=True).numpy(), source)
    assert xp.asarray(source, copy=False).dtype is xp.float64
    assert xp.asarray(memoryview(source)).tolist() == source.tolist()
    assert xp.asarray([1, 2.5]).dtype is xp.float32 and xp.asarray(True).dtype is xp.bool
    for data, dtype in (([1.0], None), (source, xp.float32), (xp.ones(2), xp.int8)):
        assert code_of(lambda data=data, dtype=dtype: xp.asarray(data, dtype=dtype, copy=False)) == "A002"
    tensor = rl.ones(3)
    assert xp.asarray(tensor, copy=False).data_ptr() == tensor.data_ptr()
    assert xp.astype(tensor, xp.float32).data_ptr() != tensor.data_ptr()
    assert xp.astype(tensor, xp.float32, copy=False).data_ptr() == tensor.data_ptr()


def test_reductions_over_no_axes_keep_each_element():
    array = xp.asarray([[1.0, 2.0, 4.0]])
    for function in (xp.sum, xp.prod, xp.mean, xp.max, xp.min):
        assert function(array, axis=()).tolist() == [[1.0, 2.0, 4.0]]
    assert xp.std(array, axis=()).tolist() == [[0.0, 0.0, 0.0]]
    assert xp.all(array, axis=()).tolist() == xp.any(array, axis=()).tolist() == [[True] * 3]
    assert xp.linalg.vector_norm(-array, axis=()).tolist() == [[1.0, 2.0, 4.0]]
    spread = xp.var(array, axis=(0, 1), keepdims=True, correction=1)
    assert spread.shape == (1, 1) and spread.item() == pytest.approx(7 / 3)


def test_small_integers_are_summed_in_the_default_ones():
    for name, expected in (("uint8", "uint64"), ("int16", "int64"), ("bool", "int64"), ("float32", "float32")):
        array = xp.ones((2, 2), dtype=getattr(xp, name))
        for function in (xp.sum, xp.prod):
            assert function(array).dtype.name == expected
        assert xp.linalg.trace(array).dtype.name == expected
    scanned = xp.cumulative_sum(xp.asarray([200, 100], dtype=xp.uint8), include_initial=True)
    assert scanned.dtype is xp.uint64 and scanned.tolist() == [0, 200, 300]
    assert xp.cumulative_prod(xp.asarray([[2.0], [3.0]]), axis=0, include_initial=True).tolist() == [[1], [2], [6]]
    assert code_of(lambda: xp.cumulative_sum(xp.ones((2, 2)))) == "A002"
    assert xp.count_nonzero(xp.asarray([[0, 2], [3, 4]]), axis=1, keepdims=True).tolist() == [[1], [2]]


def test_distinct_elements():
    values, first, inverse, counts = xp.unique_all(xp.asarray([[3.0, 1.0], [3.0, math.nan]]))
    assert values.tolist()[:2] == [1.0, 3.0] and math.isnan(values.tolist()[2])
    assert (first.tolist(), inverse.tolist(), counts.tolist()) == ([1, 0, 3], [[1, 0], [1, 2]], [1, 2, 1])
    assert xp.unique_counts(xp.asarray([2, 2])).counts.tolist() == [2]
    assert xp.unique_inverse(xp.asarray([2, 1])).inverse_indices.tolist() == [1, 0]


def test_shapes_and_selection():
    array = xp.asarray(np.arange(6).reshape(2, 3))
    assert xp.roll(array, 4).tolist() == np.roll(array.numpy(), 4).tolist()
    assert xp.roll(array, 1, axis=(0, 1)).tolist() == np.roll(array.numpy(), 1, (0, 1)).tolist()
    assert xp.flip(array).tolist() == np.flip(array.numpy()).tolist()
    assert xp.concat([array, array], axis=None).shape == (12,)
    assert [part.tolist() for part in xp.unstack(array, axis=1)] == [[0, 3], [1, 4], [2, 5]]
    assert xp.take(array, xp.asarray([2, 0]), axis=1).tolist() == [[2, 0], [5, 3]]
    assert xp.take_along_axis(array, xp.asarray([[1], [0]])).tolist() == [[1], [3]]
    assert xp.repeat(array, xp.asarray([2, 0]), axis=0).tolist() == [[0, 1, 2]] * 2
    assert code_of(lambda: xp.squeeze(array, 0)) == "A002"
    assert code_of(lambda: xp.take(array, xp.asarray([0]))) == "A002"
    assert code_of(lambda: xp.nonzero(xp.asarray(1))) == "S002"
    assert xp.searchsorted(xp.asarray([3, 1]), xp.asarray([2]), sorter=xp.asarray([1, 0])).tolist() == [1]
    assert xp.where(xp.asarray([True, False]), xp.asarray([1, 2], dtype=xp.int8), 0.5).dtype is xp.float32
    shown = xp.reshape(array, (3, 2), copy=False)
    assert shown.data_ptr() == array.data_ptr()
    assert xp.reshape(array, (3, 2), copy=True).data_ptr() != array.data_ptr()


def test_products_of_vectors_need_equal_sizes():
    assert xp.vecdot(xp.asarray([[1.0, 2.0]]), xp.asarray([3.0, 4.0])).tolist() == [11.0]
    assert code_of(lambda: xp.vecdot(xp.ones(1), xp.ones(3))) == "S003"
    assert code_of(lambda: xp.vecdot(xp.ones(()), xp.ones(3))) == "S003"


def test_differences():
    source = np.asarray([[1.0, 4.0, 9.0, 16.0]])
    array = xp.asarray(source)
    assert xp.diff(array, n=2).tolist() == [[2.0, 2.0]]
    joined = xp.diff(array, axis=0, prepend=array[:, ::-1], append=array * 0)
    assert joined.tolist() == np.diff(source, axis=0, prepend=source[:, ::-1], append=source * 0).tolist()


def test_ranges():
    assert xp.arange(5, 2).shape == (0,) and xp.arange(2, 5, -1).shape == (0,)
    assert xp.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.linspace(2, 1, 0, endpoint=False).shape == (0,)
    for k in (-3, -1, 0, 2, 7):
        assert xp.eye(3, 4, k=k).tolist() == np.eye(3, 4, k).tolist()
    assert xp.clip(xp.asarray([1, 5, 9]), 2, xp.asarray([6])).tolist() == [2, 5, 6]
    assert code_of(lambda: xp.positive(xp.asarray(True))) == "D001"


def signed(array):
    return [(value, math.copysign(1, value)) for value in array.tolist()]


def test_quotients_and_remainders_have_the_standards_special_cases():
    top = xp.asarray([math.inf, -math.inf, 1.0, -1.0, 1.0, -1.0, 7.0])
    bottom = xp.asarray([2.0, 2.0, -math.inf, math.inf, math.inf, -math.inf, 2.0])
    quotients = signed(np.asarray([math.inf, -math.inf, -0.0, -0.0, 0.0, 0.0, 3.0]))
    assert signed(xp.floor_divide(top, bottom)) == signed(top // bottom) == quotients
    assert signed(1 // xp.asarray([-math.inf, 2.0])) == [(0.0, -1), (0.0, 1)]
    zeros = xp.asarray([0.0, -0.0, 0.0, -0.0, 5.0])
    divisors = xp.asarray([2.0, 2.0, -2.0, -2.0, 3.0])
    remainders = signed(np.asarray([0.0, 0.0, -0.0, -0.0, 2.0]))
    assert signed(xp.remainder(zeros, divisors)) == signed(zeros % divisors) == remainders
    held, zeros = zeros, zeros
    zeros %= divisors
    assert zeros is held and signed(held) == remainders
    top //= bottom
    assert signed(top) == quotients
    whole = xp.asarray([7, -7])
    assert (whole // 2).tolist() == [3, -4] and (whole % 4).tolist() == [3, 1] and (7 % whole).tolist() == [0, 0]
    assert signed(xp.sign(xp.asarray([-3.0, 2.0]))) == [(-1.0, -1), (1.0, 1)]
    assert math.isnan(xp.sign(xp.asarray(math.nan)).item())


ESTIMATORS = """
import numpy as np
import rushlight as rl
from sklearn import config_context, decomposition, linear_model, metrics, preprocessing

rng = np.random.default_rng(0)
features = rng.standard_normal((40, 6))
target = features @ rng.standard_normal(6) + 0.1
scores = target + rng.standard_normal(40)

def results(convert):
    x, y, s = convert(features), convert(target), convert(scores)
    projection = decomposition.PCA(3, svd_solver="full", whiten=True).fit(x)
    ridge = linear_model.Ridge(0.5, solver="svd").fit(x, y)
    yield projection.components_
    yield projection.inverse_transform(projection.transform(x))
    yield ridge.predict(x)
    yield preprocessing.PolynomialFeatures().fit_transform(preprocessing.StandardScaler().fit_transform(x))
    yield metrics.pairwise.rbf_kernel(x)
    labels, guesses = convert((target > 0).astype(np.int64)), convert((scores > 0).astype(np.int64))
    yield metrics.confusion_matrix(labels, guesses)
    yield [metrics.r2_score(y, s), metrics.median_absolute_error(y, s), metrics.mean_squared_error(y, s)]
    yield [metrics.accuracy_score(labels, guesses), metrics.f1_score(labels, guesses)]
    yield [metrics.average_precision_score(labels, s), metrics.roc_auc_score(labels, s)]

expected = list(results(np.asarray))
with config_context(array_api_dispatch=True):
    found = list(results(rl.tensor))
assert [isinstance(one, rl.Tensor) for one in found] == [True] * 6 + [False] * 3
for one, other in zip(found, expected, strict=True):
    # Averages of labels are computed in the default float dtype.
    error = 1e-7 if one is found[-2] else 1e-9
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=error, atol=1e-9)
"""


def test_estimators_run_on_tensors():
    # SciPy reads the variable when it is imported.
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    run = subprocess.run([sys.executable, "-c", ESTIMATORS], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_complex_numbers_are_rounded_and_told_apart():
    """What the suite found: both parts are rounded, and numbers with NaN in a part are distinct."""
    x = xp.asarray([[1 + 1j, 0j, 1 + 1j], [complex(-0.0, 0.0), complex(1, math.nan), complex(1, math.nan)]])
    found = xp.unique_all(x)
    assert found.values[:2].tolist() == [0j, 1 + 1j] and bool(xp.all(xp.isnan(found.values[2:])))
    assert found.indices.tolist() == [1, 0, 4, 5] and found.counts.tolist() == [2, 2, 1, 1]
    assert found.inverse_indices.tolist() == [[1, 0, 1], [0, 2, 3]]
    assert xp.unique_inverse(x).inverse_indices.tolist() == found.inverse_indices.tolist()
    assert xp.unique_counts(x).counts.tolist() == found.counts.tolist() and xp.unique_values(x).shape == (4,)
    assert xp.unique_values(xp.zeros((0, 2), dtype=xp.complex64)).dtype is xp.complex64
    assert xp.round(xp.asarray([1.5 + 2.5j, -0.4 - 0.6j])).tolist() == [2 + 2j, -0 - 1j]


def test_scikit_learn_may_write_numpys_forms():
    x = xp.asarray([1, 4, 9, 16])
    assert xp.diff(x, 2).tolist() == [2, 2] == xp.diff(x, n=2).tolist()
    assert [one.tolist() for one in xp.where(x > 3)] == [[1, 2, 3]]
    assert xp.isdtype(np.dtype("int64"), "integral") and not xp.isdtype(np.dtype("float32"), "integral")
    with pytest.raises(rl.RushlightError) as caught:
        xp.where(x > 3, x)
    assert caught.value.code == "A004"
