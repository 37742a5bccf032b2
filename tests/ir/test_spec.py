"""Specifications: as objects and as text, opened in a scope, and compared with the arguments of calls."""

import pickle
import random

import pytest

from rushlight.ir.dtype import bool_, float32, float64, int64
from rushlight.ir.spec.leaf import ConstSpec, FloatSpec, IntSpec, TensorSpec
from rushlight.ir.spec.size import ShapeVar
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.ir.type import TensorType
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope, eq, ge, le, ne, statically_known

B = ShapeVar("B", min=1, max=64, hint=4)
T = ShapeVar("T", multiple_of=8)
TEXT = "f32[B, T], i64[B], mask=bool[B, 2*T + 1] strides any where 1 <= B <= 64, T % 8 == 0, B <= 3*T, hint B = 4"


def as_objects() -> ParamsSpec:
    return ParamsSpec(
        TensorSpec(float32, (B, T)),
        TensorSpec(int64, (B,)),
        mask=TensorSpec(bool_, (B, 2 * T + 1), "any"),
        assumptions=[3 * T >= B],
    )


def of(*shape, dtype=float32, strides=None):
    return TensorType(shape, dtype, strides=strides)


def call(b, t, rows=None, columns=None):
    mask = (b, 2 * t + 1 if columns is None else columns)
    return [of(b, t), of(b if rows is None else rows, dtype=int64), of(*mask, dtype=bool_, strides=(1, b))]


def test_objects_and_text_say_the_same():
    spec = as_objects()
    assert spec == ParamsSpec.parse(TEXT) and hash(spec) == hash(ParamsSpec.parse(TEXT))
    assert spec != ParamsSpec.parse(TEXT.replace("<= 64", "<= 65"))
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f32[]",
        "bf16[_, 3, _]",
        "f32[B, 2*B + 1] strides any",
        "(f32[B],), [int n, float, None, 'a b', True, -3, 2.5], {x: f32[_], 'y z': int, 2: i8[B]} where n >= -5",
        "((f32[B], f32[B]), []), ()",
        "f32[B, T] where B == 4, T >= 2, hint T = 4",
        "f32[B], int B",
        "int n where 0 <= n <= 5",
        "f32[B, S, min(B, S, 8), max(S, 3)] where B != 3, B%2 == 1, S == 2*B + 1, S < B*B",
        "f32[B], f32[B//2 + 1], f32[B%8]",
        "mask=bool[B], float=float where B < 7",
    ],
)
def test_text_is_read_back_equal(text):
    spec = ParamsSpec.parse(text)
    assert ParamsSpec.parse(str(spec)) == spec and str(ParamsSpec.parse(str(spec))) == str(spec)


def test_text_does_not_depend_on_which_name_came_first():
    said = "f32[p, q] where p < 2*q + 3, 3*p != q, p + q <= 9"
    older = str(ParamsSpec.parse(said.replace("p", "v1").replace("q", "v2")))
    ParamsSpec.parse("f32[w2, w1]")
    newer = str(ParamsSpec.parse(said.replace("p", "w1").replace("q", "w2")))
    assert older.replace("v", "w") == newer


def test_bounds_and_divisors_of_one_variable_are_its_facts():
    spec = ParamsSpec.parse("f32[B, T] where B >= 1, B < 65 and 2*B <= 100, T % 4 == 0, T % 6 == 0, 3*T > 7")
    assert spec.variables["B"].facts == ("B", 1, 50, 1, None)
    assert spec.variables["T"].facts == ("T", 3, None, 12, None)
    assert not spec.conditions


def test_what_bounds_and_divisors_decide_is_left_out():
    assert str(ParamsSpec.parse("f32[a, b] where a % 8 == 0, (a%8)*b == 0, a*b >= 0, a != 4, b + 7 > 3")) == (
        "f32[a, b] where a % 8 == 0"
    )
    for text in ("a*b < 0", "a <= 4, a > 2*b + 4", "a % 4 == 0, b*(a%4) > 3", "a % 8 == 0, a%16 == 4"):
        with pytest.raises(RushlightError) as caught:
            ParamsSpec.parse(f"f32[a, b] where {text}")
        assert caught.value.code == "C019"


def test_variables_of_equal_name_are_one():
    spec = ParamsSpec(TensorSpec(float32, (ShapeVar("n", min=2),)), TensorSpec(float32, (ShapeVar("n", max=9),)))
    assert str(spec) == "f32[n], f32[n] where 2 <= n <= 9"


def test_an_integer_may_be_negative_and_a_size_may_not():
    assert ParamsSpec(IntSpec("n")).variables["n"].min is None
    assert ParamsSpec(IntSpec("n"), TensorSpec(float32, (ShapeVar("n", min=None),))).variables["n"].min == 0
    assert ParamsSpec.parse("int n, f32[n + 8] where n >= -8").variables["n"].min == -8


def test_assumptions_have_no_truth_value():
    with pytest.raises(TypeError):
        bool(B < 32)
    with pytest.raises(TypeError):
        assert 1 <= B <= 32
    assert bool(B + 1 == 1 + B) and not bool(B + 1 == B)


def test_assumptions_may_be_text_and_objects():
    spec = ParamsSpec(TensorSpec(float32, (B, T)), assumptions=["T <= 32, B != 3", T >= 8])
    assert str(spec) == "f32[B, T] where 1 <= B <= 64, 8 <= T <= 32, T % 8 == 0, B != 3, hint B = 4"


def test_opening_gives_types_and_a_scope_that_knows_the_assumptions():
    opened = as_objects().open()
    b, t = opened.symbols["B"], opened.symbols["T"]
    assert [type_.shape for type_ in opened.types] == [(b, t), (b,), (b, 2 * t + 1)]
    assert opened.types[0].is_contiguous and not opened.types[2].is_contiguous
    assert statically_known(ge(b, 1)) and statically_known(le(b, 64)) and statically_known(le(b, 3 * t))
    assert statically_known(eq(t % 8, 0)) and statically_known(ne(t, 9))
    assert opened.scope.guards == [] and opened.scope.hints == {} and opened.scope.optimization_hint(b) == 4
    assert opened.conditions == (le(b, 3 * t),)
    assert [(item.leaf, item.dim) for item in opened.bindings.values()] == [(0, 0), (0, 1)]
    assert "f32[B, T]" in str(b.facts.source)


def test_specifications_share_a_scope_without_sharing_symbols():
    scope = Scope()
    first, second = (ParamsSpec.parse(text).open(scope) for text in ("f32[B] where B < 8", "f32[B] where B > 8"))
    assert first.symbols["B"] is not second.symbols["B"]
    assert statically_known(le(first.symbols["B"], 7)) and statically_known(ge(second.symbols["B"], 9))


def test_leaves_are_in_order_and_dims_without_name_have_symbols_of_their_own():
    opened = ParamsSpec.parse("[f32[_, _], int n], float, x={a: int, b: (7, f32[n])}").open()
    matrix, n, number, unnamed, constant, vector = opened.leaves
    assert isinstance(matrix, TensorType) and matrix.shape[0] is not matrix.shape[1]
    assert isinstance(vector, TensorType) and vector.shape == (n,) and vector == opened.types[1]
    assert isinstance(number, FloatSpec) and constant == ConstSpec(7)
    places = {symbol: (item.leaf, item.dim) for symbol, item in opened.bindings.items()}
    assert places == {n: (1, None), matrix.shape[0]: (0, 0), matrix.shape[1]: (0, 1), unnamed: (3, None)}


@pytest.mark.parametrize(("text", "found", "value"), [("2*B + 1", 9, 4), ("B - 3", 4, 7), ("8 - B", 3, 5), ("B", 6, 6)])
def test_variables_are_solved_for(text, found, value):
    binding = ParamsSpec.parse(f"f32[{text}]").bindings["B"]
    assert binding.value(found) == value


def test_a_size_itself_is_read_before_an_expression_is_solved():
    bindings = ParamsSpec.parse("f32[2*B, B + S], f32[B], f32[S]").bindings
    assert (bindings["B"].leaf, bindings["B"].scale) == (1, 1) and bindings["S"].leaf == 2


def test_arguments_are_taken_apart_as_specified():
    spec = ParamsSpec.parse("(f32[B], [int]), x={a: f32[B], b: float}")
    assert spec.arguments((("t", [3]),), {"x": {"b": 0.5, "a": "u"}}) == ["t", 3, "u", 0.5]
    for args, kwargs in (
        ((), {}),
        ((("t", [3]),), {}),
        ((["t", [3]],), {"x": {"a": 1, "b": 2}}),
        ((("t", []),), {"x": {"a": 1, "b": 2}}),
        ((("t", [3]),), {"x": {"a": 1}}),
    ):
        with pytest.raises(RushlightError) as caught:
            spec.arguments(args, kwargs)
        assert caught.value.code == "C022"


@pytest.mark.parametrize(
    ("leaves", "said"),
    [
        (call(4, 16), None),
        (call(64, 24), None),
        (call(4, 16)[:2], "there are 2 arguments, and the specification has 3"),
        ([of(4, 16, dtype=float64), *call(4, 16)[1:]], "argument 0 is f64[4, 16], not f32[B, T]"),
        ([of(4, 16, 1), *call(4, 16)[1:]], "argument 0 is f32[4, 16, 1], not f32[B, T]"),
        ([3, *call(4, 16)[1:]], "argument 0 is 3 (int), not f32[B, T]"),
        ([None, *call(4, 16)[1:]], "argument 0 is NoneType, not f32[B, T]"),
        ([of(4, 16, strides=(1, 4)), *call(4, 16)[1:]], "argument 0 has strides [1, 4], and f32[B, T] is row-major"),
        (call(4, 16, rows=5), "B is 4 as dim 0 of argument 0 and 5 as dim 0 of argument 1"),
        (call(4, 16, columns=34), "dim 1 of mask is 34, not 2*T + 1, where T is 16"),
        (call(65, 24), "B is 65 (dim 0 of argument 0), but B <= 64"),
        (call(0, 24), "B is 0 (dim 0 of argument 0), but B >= 1"),
        (call(4, 12), "T is 12 (dim 1 of argument 0), but T % 8 == 0"),
        (call(49, 16), "3*T >= B does not hold: B is 49, T is 16"),
    ],
)
def test_what_does_not_fit_is_named(leaves, said):
    assert as_objects().violation(leaves) == said


def test_sizes_of_one_and_empty_tensors_have_any_strides():
    spec = ParamsSpec.parse("f32[B, T, 3]")
    assert spec.violation([of(1, 5, 3, strides=(77, 3, 1))]) is None
    assert spec.violation([of(0, 5, 3, strides=(1, 1, 1))]) is None
    assert spec.violation([of(2, 5, 3, strides=(1, 3, 1))]) is not None


@pytest.mark.parametrize(
    ("text", "leaf", "fits"),
    [
        ("int", 3, True),
        ("int", True, False),
        ("int", 3.0, False),
        ("float", 0.5, True),
        ("float", 1, False),
        ("None", None, True),
        ("None", 0, False),
        ("1", 1, True),
        ("1", True, False),
        ("1", 1.0, False),
        ("0.0", 0.0, True),
        ("0.0", -0.0, False),
        ("'sum'", "sum", True),
        ("'sum'", "mean", False),
    ],
)
def test_numbers_and_constants(text, leaf, fits):
    assert (ParamsSpec.parse(text).violation([leaf]) is None) == fits


def test_a_size_that_no_value_gives_is_named():
    spec = ParamsSpec.parse("f32[2*B + 1]")
    assert spec.violation([of(5)]) is None
    assert spec.violation([of(4)]) == "dim 0 of argument 0 is 4, not 2*B + 1: no B makes it that"
    assert spec.violation([of(0)]) is not None


def test_fast_and_explained_verdicts_agree_with_the_meaning_of_the_text():
    rng = random.Random(5)
    spec = ParamsSpec.parse(
        "f32[a, b], f32[a + b], int n where 1 <= a <= 4, b % 2 == 0, a < b + n, a*b != 8, n//2 == 1"
    )
    counts = [0, 0]
    for _ in range(3000):
        a, b, n = rng.randint(0, 5), rng.randint(0, 5), rng.randint(-1, 4)
        total = a + b + (rng.random() < 0.2)
        wanted = 1 <= a <= 4 and b % 2 == 0 and a < b + n and a * b != 8 and n // 2 == 1 and total == a + b
        said = spec.violation([of(a, b), of(total), n])
        assert (said is None) == wanted, (a, b, total, n, said)
        counts[wanted] += 1
    assert min(counts) > 100
