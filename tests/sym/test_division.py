"""Floor division: what is dropped must be droppable, for every value; what must be dropped for loops is dropped."""

import itertools
from collections.abc import Iterator

import pytest

from rushlight.sym import (
    Scope,
    Size,
    axis_size,
    axis_symbol,
    ceildiv,
    divides,
    evaluate,
    floordiv,
    ge,
    is_axis,
    le,
    lt,
    minimum,
    mod,
    parts,
)


@pytest.fixture
def sizes() -> Iterator[tuple[Size, ...]]:
    scope = Scope()
    yield tuple(scope.symbol(f"s{number}", hint=5) for number in range(4))
    assert scope.symbols  # kept as long as the sizes are asked about


def assert_equal_everywhere(built: Size, meaning, symbols, limit: int = 4) -> None:
    """`built` is `meaning(values)` for all sizes of 1 to `limit` and all values of the axes over them."""
    plain = [symbol for symbol in symbols if not is_axis(symbol)]
    axes = [symbol for symbol in symbols if is_axis(symbol)]
    seen = 0
    for chosen in itertools.product(range(1, limit + 1), repeat=len(plain)):
        values = dict(zip(plain, chosen, strict=True))
        ranges = [range(evaluate(axis_size(axis), values)) for axis in axes]
        for where in itertools.product(*ranges):
            values.update(zip(axes, where, strict=True))
            assert evaluate(built, values) == meaning(values), (built, values)
            seen += 1
    assert seen


def test_row_major_index_splits_at_every_stride(sizes):
    s0, s1, s2, s3 = sizes
    a, b, c = axis_symbol(s0, "a"), axis_symbol(s1, "b"), axis_symbol(s2, "c")
    linear = (a * s1 + b) * s2 + c
    assert linear // s2 is a * s1 + b
    assert linear % s2 is c
    assert linear // (s1 * s2) is a
    assert linear % (s1 * s2) is b * s2 + c
    assert linear // s2 // s1 is a
    assert linear // s2 % s1 is b
    assert linear // (s0 * s1 * s2) == 0
    assert linear % (s0 * s1 * s2) is linear
    assert (linear + 3 * s0 * s1 * s2) // (s0 * s1 * s2) == 3
    assert linear // (s2 * s3) is (a * s1 + b) // s3


@pytest.mark.parametrize("radices", list(itertools.product([1, 2, 3, "s0", "s1", "s0*s1"], repeat=3)))
def test_digits_of_a_mixed_radix_number_are_the_axes(radices, sizes):
    s0, s1 = sizes[:2]
    radices = [{"s0": s0, "s1": s1, "s0*s1": s0 * s1}.get(radix, radix) for radix in radices]
    axes = [0 if radix == 1 else axis_symbol(radix) for radix in radices]
    linear: Size = 0
    for axis, radix in zip(axes, radices, strict=True):
        linear = linear * radix + axis
    rest = linear
    for axis, radix in reversed(list(zip(axes, radices, strict=True))):
        digit, rest = mod(rest, radix), floordiv(rest, radix)
        assert digit is axis
    assert rest == 0


def test_sizes_that_are_sums_divide_too(sizes):
    s0, s1 = sizes[:2]
    rows, columns = (s0 + 1) // 2, s1 // 3 + 1
    a, b, c = axis_symbol(rows, "a"), axis_symbol(columns, "b"), axis_symbol(s0 + s1, "c")
    linear = (a * columns + b) * (s0 + s1) + c
    assert linear // (s0 + s1) is a * columns + b
    assert linear % (s0 + s1) is c
    assert linear // (columns * (s0 + s1)) is a
    assert linear // (rows * columns * (s0 + s1)) == 0
    assert linear // (s0 + s1) % columns is b


def test_blocks_of_an_axis():
    i = axis_symbol(1024, "i")
    assert i // 4 * 4 + i % 4 is i
    assert (i % 4) // 4 == 0
    assert (i * 4 + 3) // 4 is i
    assert (i * 4 + 3) // 8 is i // 2
    assert (i * 4 + 3) % 4 == 3
    assert i // 4 // 8 is i // 32
    assert i // 1024 == 0
    assert (i + 1024) // 1024 == 1
    assert i % 2048 is i
    assert (i % 12) // 4 is i // 4 - 3 * (i // 12)
    outer, inner = axis_symbol(256, "o"), axis_symbol(4, "l")
    assert (outer * 4 + inner) // 4 is outer
    assert (outer * 4 + inner) % 4 is inner
    assert (outer * 4 + inner) // 8 is outer // 2


def test_blocks_of_a_size(sizes):
    s0, s1 = sizes[:2]
    block = axis_symbol(s0 // 4, "block")
    lane = axis_symbol(4, "lane")
    assert (block * 4 + lane) // s0 == 0
    i = axis_symbol(s0 * s1, "i")
    assert (i // s1) % s0 is i // s1
    assert i // s1 // s0 == 0
    assert (i % s1) // s1 == 0
    assert (i - i % s1) // s1 is i // s1
    assert i // s1 * s1 + i % s1 is i


def test_reversed_axis(sizes):
    s0, s1 = sizes[:2]
    a, b = axis_symbol(s0, "a"), axis_symbol(s1, "b")
    flipped = (s0 - 1 - a) * s1 + (s1 - 1 - b)
    assert flipped // s1 is s0 - 1 - a
    assert flipped % s1 is s1 - 1 - b
    assert flipped // (s0 * s1) == 0


def test_what_cannot_be_proved_stays(sizes):
    s0, s1, s2, _ = sizes
    a, b = axis_symbol(s0, "a"), axis_symbol(s1, "b")
    for e in (a // s1, (a + b) // s0, (a * s1 + b) // s0, (a * s2 + b) // s2, (s0 + 1) // 2, (a + 1) // s0):
        assert "floordiv" in {atom.op.name for _, atoms in parts(e) for atom in atoms}


def test_nested_divisions_merge(sizes):
    s0, s1, s2, _ = sizes
    assert s0 // 2 // 3 is s0 // 6
    assert s0 // s1 // s2 is s0 // (s1 * s2)
    assert (s0 // 4 + 1) // 2 is (s0 + 4) // 8
    assert (s0 // s1 + 1) // s2 is (s0 + s1) // (s1 * s2)


def test_common_factors_cancel(sizes):
    s0, s1, s2, _ = sizes
    assert (6 * s0) // 4 is (3 * s0) // 2
    assert (4 * s0 + 3) // 8 is s0 // 2
    assert (s0 * s1) // (s0 * s2) is s1 // s2
    assert (s0 * s1 + s0) // s0 is s1 + 1
    assert (7 * s0) // 4 is not s0 + (3 * s0) // 4  # equal, but no loop needs it
    assert (s0 + 7) // 4 is 1 + (s0 + 3) // 4
    assert ((s0 + 1) * (s1 + 2)) // (s0 + 1) is s1 + 2
    assert (2 * s0 + 2) // (s0 + 1) == 2


def test_divisors_by_sign_and_zero(sizes):
    s0 = sizes[0]
    assert s0 // 1 is s0
    assert s0 // -1 is -s0
    assert evaluate(s0 // -4, {s0: 9}) == 9 // -4
    assert evaluate(s0 % -4, {s0: 9}) == 9 % -4
    assert 0 // s0 == 0
    assert floordiv(7, 2) == 3
    assert type(floordiv(True, 1)) is int
    with pytest.raises(ZeroDivisionError):
        s0 // 0


def test_rounded_up(sizes):
    s0, s1 = sizes[:2]
    assert ceildiv(7, 2) == 4
    assert ceildiv(4 * s0, 4) is s0
    assert ceildiv(s0 * s1, s1) is s0
    assert_equal_everywhere(ceildiv(s0, 4), lambda v: -(-v[s0] // 4), [s0], 20)


def test_divides_knows_multiples(sizes):
    scope = Scope()
    s = scope.symbol(multiple_of=8)
    assert divides(4, s)
    assert divides(16, 2 * s + 32)
    assert not divides(16, s)
    assert not divides(4, s + 2)
    assert mod(s, 4) == 0
    assert divides(sizes[0], sizes[0] * s)
    assert not divides(s, sizes[0])
    assert divides(5, 0)


def small_forms(a: Size, b: Size, n: Size, m: Size) -> list[Size]:
    terms = [a, b, a * n, b * m, a * m, n, m, n * m, 1, 3]
    weights = [-1, 3]
    found = []
    for (x, y), (v, w) in itertools.product(itertools.combinations(terms, 2), itertools.product(weights, repeat=2)):
        found.append(v * x + w * y)
    return found


def test_every_simplification_is_right_for_all_small_values():
    """Exhaustive: 180 numerators over 6 divisors, for all sizes up to 3 and all values of two axes."""
    scope = Scope()
    n, m = scope.symbol("n"), scope.symbol("m")
    a, b = axis_symbol(n, "a"), axis_symbol(m, "b")
    points = []
    for sizes in itertools.product([1, 2, 3], repeat=2):
        for where in itertools.product(range(sizes[0]), range(sizes[1])):
            points.append(dict(zip((n, m, a, b), (*sizes, *where), strict=True)))
    for numerator in small_forms(a, b, n, m):
        values = [evaluate(numerator, point) for point in points]
        for divisor in (2, 3, n, n * m, n + 1, n + m):
            built = floordiv(numerator, divisor)
            expected = [x // evaluate(divisor, point) for x, point in zip(values, points, strict=True)]
            assert [evaluate(built, point) for point in points] == expected, (numerator, divisor, built)


def test_negative_divisors_turn_the_numerator(sizes):
    s0, s1 = sizes[:2]
    assert s1 // (-s0) is (-s1) // s0
    assert (s0 * s1) // (-s0) is -s1
    assert evaluate(s1 // (-s0 - 1), {s0: 2, s1: 7}) == 7 // -3


def _divisions(size):
    waiting, found = [size], []
    while waiting:
        top = waiting.pop()
        if not isinstance(top, int):
            waiting += top.operands
            found += [top] if top.op.name == "floordiv" else []
    return found


def test_divisors_with_negative_parts_are_turned_by_their_values(sizes):
    s0, s1, s2 = sizes[:3]
    up, wide = (-s0) // 4, (-s1) // 4  # rounded up, times -1
    quotients = [
        (s2 - 2, -4 * up),
        (s2 - 2, 4 * up),
        (16 * up * s2 + 3, -4 * up * wide),
        (16 * up * s2, 4 * up * wide),
        (up * s2, -4 * up),
        (s2 + 1, up + wide),
    ]
    for numerator, divisor in quotients:
        built = numerator // divisor
        for values in itertools.product([1, 4, 5, 9], [1, 6, 8], [0, 1, 7, 30]):
            point = dict(zip((s0, s1, s2), values, strict=True))
            expected = evaluate(numerator, point) // evaluate(divisor, point)
            assert evaluate(built, point) == expected, (numerator, divisor, built)
            assert all(evaluate(inner.operands[1], point) > 0 for inner in _divisions(built))


def test_ragged_tiles(sizes):
    s0 = sizes[0]
    tile, lane = axis_symbol(ceildiv(s0, 16), "tile"), axis_symbol(16, "lane")
    position = 16 * tile + lane
    assert position // 16 is tile
    assert position % 16 is lane
    assert lt(16 * tile, s0) is True
    assert not isinstance(lt(position, s0), bool)
    width = minimum(16, s0 - 16 * tile)
    assert ge(width, 1) is True
    assert le(width, 16) is True
    inner = axis_symbol(width, "inner")
    assert lt(16 * tile + inner, s0) is True
    assert (16 * tile + inner) // s0 == 0
    assert (16 * tile + inner) // 16 is tile


def test_coefficients_of_unknown_sign(sizes):
    s0, s1, _, _ = sizes
    a, b = axis_symbol(s0, "a"), axis_symbol(s1, "b")
    # A blend of two values that both lie in the range lies in it.
    assert le(a * s1 + (s0 - 1 - a) * b, (s0 - 1) * s1) is True
    assert ge(a * (s1 - b) + b, 0) is True
    assert not isinstance(ge(a * (s1 - s0) + b, 0), bool)


def test_blocks_of_blocks_hold_all_blocks(sizes):
    s0 = sizes[0]
    blocks = s0 // 32 + 1
    assert minimum(32 * (s0 // 1024) + 32, blocks) is blocks
    assert minimum(32 * (s0 // 1024) + 31, blocks) is not blocks
    assert minimum(2 * (s0 // 6) + 1, s0 // 3) is s0 // 3


@pytest.mark.parametrize("outer", [4, 6, 12])
@pytest.mark.parametrize("inner", [2, 3, 4, 6])
def test_the_lesser_of_two_quotients_is_so_everywhere(sizes, outer, inner):
    s0 = sizes[0]
    for factor, more in itertools.product((1, 2, 3), range(5)):

        def lesser(values, factor=factor, more=more):
            return min(factor * (values[s0] // outer) + more, values[s0] // inner)

        assert_equal_everywhere(minimum(factor * (s0 // outer) + more, s0 // inner), lesser, [s0], 50)
