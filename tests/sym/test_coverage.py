"""Coverage of a domain by parts: points that are missed, and proofs that none is, compared with brute force."""

import itertools
import random

import pytest

from rushlight.support.errors import CompileError
from rushlight.sym import Condition, Scope, eq, ge, gt, le, lt, maximum, minimum, ne
from rushlight.sym.coverage import satisfiable, uncovered
from rushlight.sym.linear import Effort, Linear, linear, solve

NEVER = 10**9


def sizes(count, lower=None, upper=None):
    scope = Scope()
    return [scope.symbol(f"x{place}", lower=lower, upper=upper) for place in range(count)]


def satisfies(point, zero, nonnegative):
    return all(form.value(point) == 0 for form in zero) and all(form.value(point) >= 0 for form in nonnegative)


def random_form(rng, variables, greatest):
    chosen = rng.sample(range(variables), rng.randint(1, variables))
    return linear({place: rng.randint(-greatest, greatest) for place in chosen}, rng.randint(-12, 12))


@pytest.mark.parametrize(("variables", "side", "greatest"), [(1, 20, 9), (2, 6, 7), (3, 4, 5), (4, 2, 3)])
def test_linear_systems_in_a_box_have_solutions_where_brute_force_finds_some(variables, side, greatest):
    rng = random.Random(variables)
    box = [Linear(((place, sign),), side) for place in range(variables) for sign in (1, -1)]
    points = [dict(enumerate(point)) for point in itertools.product(range(-side, side + 1), repeat=variables)]
    counts = [0, 0]
    for _ in range(700):
        zero = [random_form(rng, variables, greatest) for _ in range(rng.choice((0, 0, 1, 2)))]
        nonnegative = [random_form(rng, variables, greatest) for _ in range(rng.randint(0, 4))]
        found = solve(zero, box + nonnegative, Effort(NEVER, variables))
        exists = any(satisfies(point, zero, nonnegative) for point in points)
        assert (found is not None) == exists, (zero, nonnegative)
        assert found is None or satisfies(found, zero, box + nonnegative)
        counts[exists] += 1
    assert min(counts) > 60


def test_systems_without_a_box_are_decided_too():
    # 3x - 5y == 1 has solutions of any size; 6x + 10y - 15z == 1 needs three changes of variables; 4x - 6y is even.
    for table, constant, solvable in (({0: 3, 1: -5}, -1, 1), ({0: 6, 1: 10, 2: -15}, -1, 1), ({0: 4, 1: -6}, -1, 0)):
        form = linear(table, constant)
        found = solve([form], [Linear(((0, 1),), -1000)], Effort(NEVER, 3))
        assert (found is not None) == solvable
        assert found is None or (form.value(found) == 0 and found[0] >= 1000)


def test_a_real_solution_without_an_integer_one_is_none():
    # Pugh's example: 27 <= 11x + 13y <= 45, -10 <= 7x - 9y <= 4 has real points and no integer one.
    forms = [
        linear({0: 11, 1: 13}, -27),
        linear({0: -11, 1: -13}, 45),
        linear({0: 7, 1: -9}, 10),
        linear({0: -7, 1: 9}, 4),
    ]
    assert solve([], forms, Effort(NEVER, 2)) is None


def random_condition(rng, symbols):
    def size(depth=0):
        kind = rng.randint(0, 7 if depth < 2 else 3)
        if kind < 4:
            return rng.choice((1, 1, 2, 3, -1)) * rng.choice(symbols) + rng.randint(-3, 3)
        if kind == 4:
            return size(depth + 1) + size(depth + 1)
        if kind == 5:
            return size(depth + 1) // rng.randint(2, 4)
        if kind == 6:
            return size(depth + 1) % rng.randint(2, 4)
        return rng.choice((minimum, maximum))(size(depth + 1), size(depth + 1))

    return rng.choice((eq, ne, lt, le, gt, ge))(size(), rng.choice((size(), rng.randint(-4, 6))))


def random_part(rng, symbols, most):
    return [random_condition(rng, symbols) for _ in range(rng.randint(1, most))]


def holds(conditions, point):
    return all(item if isinstance(item, bool) else item.holds(point) for item in conditions)


@pytest.mark.parametrize(("count", "side", "runs"), [(1, 9, 500), (2, 4, 400), (3, 2, 250)])
def test_points_that_no_part_has_are_those_of_brute_force(count, side, runs):
    rng = random.Random(count)
    symbols = sizes(count)
    box = [item for symbol in symbols for item in (ge(symbol, -side), le(symbol, side))]
    points = [
        dict(zip(symbols, point, strict=True)) for point in itertools.product(range(-side, side + 1), repeat=count)
    ]
    counts = [0, 0]
    for _ in range(runs):
        domain = box + random_part(rng, symbols, 2)
        parts = [random_part(rng, symbols, 2) for _ in range(rng.randint(0, 4))]
        if rng.random() < 0.4:  # a case and what it leaves, of which brute force must find nothing
            item = random_condition(rng, symbols)
            parts += [[item], [not item if isinstance(item, bool) else item.negate()]]
            if rng.random() < 0.5:
                parts[-1] += random_part(rng, symbols, 1)
        found = uncovered(domain, parts)
        missed = any(holds(domain, p) and not any(holds(part, p) for part in parts) for p in points)
        assert (found is not None) == missed, (domain, parts)
        if found is not None:
            assert holds(domain, found) and not any(holds(part, found) for part in parts)
        counts[missed] += 1
    assert min(counts) > 40


def test_domains_without_bounds_are_covered_or_not():
    (n,) = sizes(1, lower=0)
    small, rest = [lt(n, 1024)], [ge(n, 1024)]
    assert uncovered([], [small, rest]) is None
    assert uncovered([], [small, [gt(n, 1024)]]) == {n: 1024}
    assert uncovered([ge(n, 2)], [small, [gt(n, 1024)], [eq(n % 4, 0)]]) is None
    assert uncovered([], [[eq(n % 3, value)] for value in range(3)]) is None
    assert uncovered([], [[eq(n % 3, value)] for value in (0, 2)]) == {n: 1}


def test_the_example_of_one_three_many_and_the_rest():
    (b,) = sizes(1, lower=0)
    domain = [le(b, 256)]
    parts = [[eq(b, 1)], [eq(b, 3)], [gt(b, 100)]]
    assert uncovered(domain, parts) == {b: 0}
    assert uncovered(domain, [*parts, [le(b, 100)]]) is None
    assert uncovered(domain, [*parts, [le(b, 99)]]) == {b: 100}


def test_what_symbols_are_born_with_is_part_of_the_domain():
    scope = Scope()
    t = scope.symbol("t", lower=8, upper=64, multiple_of=8)
    assert uncovered([], [[eq(t % 16, 0)], [eq(t % 16, 8)]]) is None
    assert uncovered([], [[ne(t, 24)]]) == {t: 24}
    assert satisfiable([gt(t % 8, 0)]) is None and satisfiable([gt(t, 64)]) is None
    assert satisfiable([gt(t, 56)]) == {t: 64}


def test_many_parts_over_several_sizes_are_decided():
    a, b, c = sizes(3, lower=1, upper=4096)
    edges = [1, 2, 9, 33, 129, 513, 4097]
    steps = list(itertools.pairwise(edges))
    parts = [[ge(a, low), lt(a, high), ge(b, start), lt(b, end)] for low, high in steps for start, end in steps]
    assert uncovered([eq(c % 8, 0)], parts) is None
    del parts[20]
    found = uncovered([eq(c % 8, 0)], parts)
    assert found is not None and found[c] % 8 == 0 and not any(holds(part, found) for part in parts)


def test_products_that_nothing_depends_on_do_not_matter():
    a, b = sizes(2, lower=1)
    assert uncovered([], [[le(a * b, 100)], [gt(a * b, 100)]]) is None
    assert satisfiable([ge(a * b, 1)]) is not None
    assert satisfiable([le(a * b, 0)]) is None


def test_products_that_matter_are_said_to_be_too_hard():
    a, b = sizes(2, lower=2, upper=50)
    with pytest.raises(CompileError) as caught:
        satisfiable([eq(a * b, 53)])
    assert caught.value.code == "C023"


def test_effort_is_bounded():
    with pytest.raises(CompileError) as caught:
        solve([], [linear({0: 7, 1: -9, 2: 5}, 3), linear({0: -7, 1: 4, 2: 3}, 8)], Effort(3, 3))
    assert caught.value.code == "C023"


def test_decided_conditions_are_allowed():
    (n,) = sizes(1, lower=0)
    assert uncovered([True], [[True, ge(n, 0)]]) is None
    assert uncovered([False], []) is None and satisfiable([True]) == {}
    assert uncovered([le(n, 5)], [[False]]) == {n: 0}
    assert isinstance(le(n, 5), Condition)
