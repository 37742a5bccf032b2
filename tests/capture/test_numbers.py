"""Arithmetic of the numbers among the arguments: errors, classes and special values are those of each call."""

import math

import pytest

import rushlight as rl


def quotient(x, n):
    try:
        y = 1 / n
    except ZeroDivisionError:
        y = 5.0
    return x * y


def returned_quotient(x, n):
    try:
        return x + 1, 7 // n
    except ZeroDivisionError as error:
        return x, str(error)


def random_quotient(x, n):
    try:
        return x * rl.rand(2) * (1 / n)
    except ZeroDivisionError:
        return x * rl.rand(2)


def power_of_two(x, n):
    y = 2**n
    return x * y, y


def root(x, n):
    try:
        return x * (n**0.5)
    except TypeError as error:
        return str(error)


def overflowing(x, n):
    try:
        return x * 1e200**n
    except OverflowError:
        return x


def shifted(x, n):
    try:
        return x * 2, 1 << n, n << 70
    except ValueError as error:
        return x, str(error)


def bits(x, n):
    return x * (n & 6), n | 8, n ^ 1, ~n, +n, divmod(n, 3), divmod(7, n or 1)


def text(x, n):
    return x, "%s" % [n], f"{(n,)}"


def copied_sign(x, n):
    return x * math.copysign(1, n)


def is_itself(x, n):
    return x * 2 if n == n else x * 3


def chain(x, n):
    m = n
    for _ in range(60):
        m = (m * m + n) % 1000003
    for _ in range(300):
        m = m + 1
    return x * m if m > 500 else x, m, [n + k for k in range(300)]


INTS = [(2, 0, -3, 3, 0), (0, 2, -3, 0, 70)]
PROGRAMS = {
    quotient: INTS,
    chain: INTS,
    returned_quotient: INTS,
    random_quotient: INTS,
    power_of_two: INTS,
    overflowing: INTS,
    shifted: INTS,
    bits: [*INTS, (2**100, 1)],
    text: INTS,
    root: [(2.0, -4.0, 9.0), (-4.0, 2.0)],
    copied_sign: [(0.0, -0.0, 0.0, 1.0)],
    is_itself: [(math.nan, 1.0, math.nan), (1.0, math.nan)],
}


def shown(run, x, value):
    """What a call gives, or the class of its error, as text."""
    rl.manual_seed(0)
    try:
        return repr(run(x, value))
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "parts"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_call_has_the_numbers_of_python(program, whole):
    for values in PROGRAMS[program]:
        compiled = rl.compile(program, fullgraph=whole)
        for value in values:
            x = rl.tensor([1.0, 2.0])
            assert shown(compiled, x, value) == shown(program, x, value), value


def test_quotients_share_a_graph_until_one_is_undefined():
    rl.compiler.reset()
    compiled = rl.compile(quotient, fullgraph=True)
    for value in (2, 3, -5):
        compiled(rl.ones(2), value)
    assert rl.compiler.graph_count() == 1
    compiled(rl.ones(2), 0)
    compiled(rl.ones(2), 4)
    assert rl.compiler.graph_count() == 2
