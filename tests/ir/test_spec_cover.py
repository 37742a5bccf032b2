"""Whether specifications cover a domain, compared with what they say of every call in a box."""

import itertools
import random

import pytest

from rushlight.ir.dtype import float32
from rushlight.ir.spec.cover import coverage_hole, require_coverage
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.ir.type import TensorType
from rushlight.support.errors import RushlightError


def hole(domain, *parts):
    return coverage_hole(ParamsSpec.parse(domain), [ParamsSpec.parse(part) for part in parts])


def test_one_three_many_and_the_rest():
    parts = ["f32[B] where B == 1", "f32[B] where B == 3", "f32[B] where B > 100", "f32[B]"]
    assert hole("f32[B] where B <= 256", *parts) is None
    assert hole("f32[B] where B <= 256", *parts[:3]) == {"B": 0}
    assert hole("f32[B] where 3 <= B <= 256", *parts[:3]) == {"B": 4}


def test_variables_have_names_of_their_own():
    assert hole("f32[B, T], i64[B]", "f32[T, B], i64[T] where T < 9", "f32[n, _], i64[n] where n >= 9") is None
    assert hole("f32[B, T], i64[B]", "f32[a, b], i64[a] where b < 9", "f32[a, b], i64[a] where b > 9")["T"] == 9
    assert hole("f32[B, T]", "f32[n, n]") in ({"B": 0, "T": 1}, {"B": 1, "T": 0})
    assert hole("f32[n, n]", "f32[a, b]") is None


def test_derived_sizes_are_matched_by_value():
    assert hole("f32[B], f32[S] where S == 2*B + 1", "f32[a], f32[2*a + 1]") is None
    assert hole("f32[B], f32[2*B + 1]", "f32[a], f32[b] where b == 2*a + 1") is None
    assert hole("f32[2*B + 1] where B > 0", "f32[n] where n % 2 == 1") is None
    assert hole("f32[n] where n > 1", "f32[2*B + 1]", "f32[4*B]") == {"n": 2}
    assert hole("f32[n]", "f32[8 - B]", "f32[n] where n > 8") is None
    assert hole("f32[B//2 + 3], f32[B]", "f32[n], f32[m] where m - 2*n >= -6, m - 2*n <= -5") is None


def test_fixed_sizes_cover_one_value():
    assert hole("f32[n] where n < 3", "f32[0]", "f32[1]", "f32[2]") is None
    assert hole("f32[n] where n < 3", "f32[0]", "f32[2]") == {"n": 1}
    assert hole("f32[7]", "f32[n] where n < 8") is None and hole("f32[7]", "f32[n] where n < 7") == {}


@pytest.mark.parametrize(
    ("domain", "part", "covered"),
    [
        ("f32[n]", "f64[n]", False),
        ("f32[n]", "f32[n, _]", False),
        ("f32[n] strides any", "f32[n]", False),
        ("f32[n]", "f32[n] strides any", True),
        ("(f32[n],)", "[f32[n]]", False),
        ("x=f32[n]", "y=f32[n]", False),
        ("f32[n], f32[m]", "f32[n]", False),
        ("{x: f32[n]}", "{x: f32[m]}", True),
        ("float", "float", True),
        ("float", "2.5", False),
        ("2.5", "float", True),
        ("None", "None", True),
        ("None", "'x'", False),
        ("int", "int n", True),
        ("int n", "3", False),
        ("3", "int n", True),
        ("int n where 3 <= n < 4", "3", True),
        ("True", "int n", False),
    ],
)
def test_kinds_of_arguments_matter(domain, part, covered):
    assert (hole(domain, part) is None) == covered


def test_dims_without_name_are_called_by_their_place():
    assert hole("f32[_, 3], n=int", "f32[n, 3], n=int where n != 5", "f32[_, 3], n=int i where i < 2") == {
        "dim 0 of argument 0": 5,
        "n": 2,
    }


def test_a_hole_is_an_error_that_shows_sizes():
    parts = [ParamsSpec.parse(f"f32[n] where {text}") for text in ("n < 1024", "n > 1024")]
    with pytest.raises(RushlightError) as caught:
        require_coverage(ParamsSpec.parse("f32[B]"), parts)
    assert caught.value.code == "C021" and "B = 1024" in caught.value.message
    require_coverage(ParamsSpec.parse("f32[B]"), [*parts, ParamsSpec.parse("f32[1024]")])


def random_spec(rng, names):
    a, b = names
    facts = []
    for _ in range(rng.randint(0, 2)):
        relation = rng.choice(("<", "<=", ">", ">=", "==", "!="))
        left = rng.choice((a, b, f"{a} + {b}", f"2*{a} - {b}", f"{a} % 2", f"{b} // 2", f"min({a}, {b})"))
        facts.append(f"{left} {relation} {rng.randint(0, 4)}")
    first = rng.choice((a, a, f"2*{a}", f"{a} + 1"))
    text = f"f32[{first}, {b}], f32[{rng.choice((a, b, f'{a} + {b}', '_'))}]"
    return text + (f" where {', '.join(facts)}" if facts else "")


def the_call(domain, hole):
    """The arguments in which the variables of a random specification have these values."""
    sizes = domain.partition(" where ")[0].replace("f32", "").replace("_", str(hole.get("dim 0 of argument 1")))
    return [TensorType(tuple(shape), float32) for shape in eval(sizes, {}, hole)]


def test_holes_are_those_of_brute_force():
    rng = random.Random(11)
    shapes = list(itertools.product(range(5), repeat=3))
    counts = {}
    for _ in range(500):
        domain, *parts = [random_spec(rng, rng.sample(("p", "q", "r"), 2)) for _ in range(rng.randint(2, 5))]
        if rng.random() < 0.5:
            relation = rng.choice((">", "<="))
            other = ">" if relation == "<=" else "<="
            parts.append(f"f32[u, v], f32[_] where u {relation} v")
            parts.append(f"f32[u, v], f32[_] where u {other} v" + rng.choice(("", ", u != 4")))
        try:
            spec, *others = [ParamsSpec.parse(text) for text in (domain, *parts)]
        except RushlightError as error:
            assert error.code == "C019"
            continue
        found = coverage_hole(spec, others)
        calls = [(TensorType((x, y), float32), TensorType((z,), float32)) for x, y, z in shapes]
        inside = [leaves for leaves in calls if spec.violation(leaves) is None]
        missed = [leaves for leaves in inside if all(other.violation(leaves) is not None for other in others)]
        assert not (missed and found is None), (domain, parts, missed[0])
        if found is not None:
            leaves = the_call(domain, found)
            assert spec.violation(leaves) is None, (domain, found)
            assert all(other.violation(leaves) is not None for other in others), (domain, parts, found)
        counts[found is None] = counts.get(found is None, 0) + 1
    assert min(counts.values()) > 80, counts
