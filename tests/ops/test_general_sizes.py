"""What operators need of sizes is checked in eager, guarded in a trace with an example, and asserted in one without."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager.creation import from_numpy
from rushlight.ir.dtype import float32
from rushlight.ir.type import CPU, Layout, TensorType
from rushlight.ops import OPERATORS
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope, evaluate


def ones(*shape):
    return from_numpy(np.ones(shape, np.float32))


@pytest.mark.parametrize(
    ("code", "name", "operands", "attrs"),
    [
        ("S012", "as_strided_scatter", [(3, 4), (2, 2)], {"size": (2, 2), "stride": (40, 2)}),
        ("S012", "as_strided_backward", [(2, 2)], {"input_sizes": (3, 4), "stride": (40, 2), "storage_offset": None}),
        ("S009", "slice_backward", [(3, 1)], {"input_sizes": (5, 3), "dim": 0, "start": 1, "end": 4, "step": 1}),
        ("S009", "select_backward", [(2,)], {"input_sizes": (5, 3), "dim": 0, "index": 1}),
        ("S009", "diagonal_backward", [(2,)], {"input_sizes": (3, 3), "offset": 0, "dim1": 0, "dim2": 1}),
        ("S009", "unfold_backward", [(3, 3)], {"input_sizes": (6,), "dim": 0, "size": 3, "step": 2}),
        ("S014", "conv_transpose1d", [(1, 2, 4), (3, 2, 3)], {}),
        ("S011", "conv_transpose1d", [(1, 3, 0), (3, 2, 0)], {}),
        ("S011", "unfold", [(4,)], {"dimension": 0, "size": 5, "step": 1}),
        ("A002", "split", [(4,)], {"split_size_or_sections": 0}),
    ],
)
def test_eager_refuses_what_would_leave_memory(code, name, operands, attrs):
    with pytest.raises(RushlightError) as error:
        OPERATORS[name](*[ones(*shape) for shape in operands], **attrs)
    assert error.value.code == code


def test_compiled_code_refuses_what_eager_refuses_at_sizes_that_the_trace_did_not_have():
    compiled = rl.compile(lambda x: rl.nn.functional.max_pool1d(x, 3))
    assert compiled(ones(2, 6)).shape == (2, 2)
    for function in (compiled, lambda x: rl.nn.functional.max_pool1d(x, 3)):
        with pytest.raises(RushlightError) as error:
            function(ones(2, 2))
        assert error.value.code == "S011"
    largest = rl.compile(lambda x: x.amax(0))
    assert largest(ones(3, 2)).shape == (2,)
    for function in (largest, lambda x: x.amax(0)):
        with pytest.raises(RushlightError) as error:
            function(ones(0, 2))
        assert error.value.code == "I007"


def unbacked(scope, rank, strided=False):
    shape = tuple(scope.symbol() for _ in range(rank))
    return TensorType(shape, float32, CPU, tuple(scope.symbol() for _ in shape) if strided else None)


def test_views_of_dense_dims_ask_nothing():
    scope = Scope()
    type_ = unbacked(scope, 3)
    u0, u1, u2 = type_.shape
    found = OPERATORS["view"].infer((type_,), {"size": (u0, u1 * u2)})
    assert found.strides == (u1 * u2, 1)
    assert not scope.asserts
    again = OPERATORS["view"].infer((found,), {"size": (u0, u1, u2)})
    assert again.strides == type_.strides
    assert not scope.asserts


def test_views_of_other_dims_assert_that_those_merged_lie_dense_where_that_matters():
    scope = Scope()
    type_ = unbacked(scope, 3, strided=True)
    u0, u1, u2 = type_.shape
    found = OPERATORS["view"].infer((type_,), {"size": (u0 * u1, u2)})
    assert found.strides == type_.strides[1:]
    (needed,) = [item.condition for item in scope.asserts]
    known = dict(zip((*type_.shape, *type_.strides), (2, 3, 4, 24, 8, 2), strict=True))
    assert needed.holds(known)
    step = type_.strides[0]
    assert not needed.holds({**known, step: 30})
    assert needed.holds({**known, step: 30, u0: 1})
    assert needed.holds({**known, step: 30, u2: 0})


def test_squeeze_takes_a_size_that_nobody_knows_to_be_another_than_1():
    scope = Scope()
    type_ = unbacked(scope, 2)
    found = OPERATORS["squeeze"].infer((type_,), {"dim": None})
    assert found.shape == type_.shape
    assert [str(item.condition) for item in scope.asserts] == ["u0 != 1", "u1 != 1"]


def test_reshape_copies_where_no_strides_are_known_to_do():
    scope = Scope()
    u0, u1 = unbacked(scope, 2).shape
    layout = Layout((u0, u1), (1, u0))
    assert OPERATORS["reshape"].view_rule(layout, (u0 * u1,)) is None
    assert not scope.asserts


def test_heads_are_repeated_by_a_formula_that_is_right_for_equal_numbers_too():
    scope = Scope()
    query, key = unbacked(scope, 4), unbacked(scope, 4)
    found = OPERATORS["scaled_dot_product_attention"].infer(
        (query, key, key, None), {"dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": True}
    )
    heads = {query.shape[1]: 6, key.shape[1]: 6}
    assert evaluate(found.shape[1], heads) == 6


def test_slices_count_from_the_back_where_an_end_turns_out_negative():
    scope = Scope()
    (u0,) = unbacked(scope, 1).shape
    end = u0 - 4
    found = OPERATORS["slice"].infer((TensorType((u0,), float32),), {"dim": 0, "start": None, "end": end, "step": 1})
    for size in range(9):
        assert evaluate(found.shape[0], {u0: size}) == len(range(size)[: size - 4])


def test_bits_of_an_einsum_do_not_depend_on_the_sizes_that_came_first():
    def chain(a, b, c, d):
        rng = np.random.default_rng(0)
        parts = [from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in ((a, b), (b, c), (c, d))]
        return rl.einsum("ab,bc,cd->ad", *parts), parts

    compiled = rl.compile(lambda *parts: rl.einsum("ab,bc,cd->ad", *parts))
    for sizes in ((2, 30, 40, 50), (50, 40, 30, 2), (2, 3, 4, 2)):
        wanted, parts = chain(*sizes)
        np.testing.assert_array_equal(compiled(*parts).numpy(), wanted.numpy())
        product = (parts[0] @ parts[1]) @ parts[2]
        np.testing.assert_array_equal(product.numpy(), wanted.numpy())
