"""What is learned is true: on every point that satisfies the facts, answers, images and intervals are right."""

import itertools
import random

import pytest

from rushlight.sym import Condition, Scope, Size, eq, evaluate, ge, lt, maximum, minimum, ne, product

RELATIONS = [
    (eq, lambda x, y: x == y),
    (ne, lambda x, y: x != y),
    (lt, lambda x, y: x < y),
    (ge, lambda x, y: x >= y),
]


def may_be(symbol, value: int) -> bool:
    lower, upper, step = symbol.facts.lower, symbol.facts.upper, symbol.facts.multiple_of
    return (lower is None or lower <= value) and (upper is None or value <= upper) and value % step == 0


def polynomial(rng: random.Random, symbols: list) -> Size:
    e: Size = rng.randint(-4, 4)
    for _ in range(rng.randint(1, 4)):
        e = e + rng.choice([-2, -1, 1, 1, 2]) * product([rng.choice(symbols) for _ in range(rng.choice([1, 1, 2]))])
    return rng.choice([minimum, maximum])(e, rng.choice(symbols)) if rng.random() < 0.3 else e


@pytest.mark.parametrize("seed", range(12))
def test_answers_agree_with_every_point_that_is_left(seed):
    rng = random.Random(seed)
    scope = Scope(locate=lambda: None)
    symbols = [
        scope.symbol(
            lower=rng.choice([0, 0, 1, None]), upper=rng.choice([None, None, 3]), multiple_of=rng.choice([1, 1, 2])
        )
        for _ in range(3)
    ]
    grid = [dict(zip(symbols, values, strict=True)) for values in itertools.product(range(-4, 6), repeat=3)]
    points = [point for point in grid if all(may_be(symbol, value) for symbol, value in point.items())]
    asked = learned = 0
    for _ in range(12):
        a, b = polynomial(rng, symbols), polynomial(rng, symbols)
        build, meaning = rng.choice(RELATIONS)
        condition = build(a, b)
        truths = [meaning(evaluate(a, point), evaluate(b, point)) for point in points]
        known = scope.known(condition)
        if known is not None:
            assert truths == [known] * len(points)
            continue
        assert isinstance(condition, Condition)
        assert truths == [condition.holds(point) for point in points]
        asked += 1
        if not any(truths):
            continue
        scope.learn(condition)
        learned += 1
        points = [point for point, truth in zip(points, truths, strict=True) if truth]
        assert scope.known(condition) is True
        assert scope.known(condition.negate()) is False
        for symbol in symbols:
            e = symbol * symbol + symbols[0]
            image, (lower, upper) = scope.resolve(e), scope.bounds(e)
            for point in points:
                value = evaluate(e, point)
                assert evaluate(image, point) == value
                assert lower is None or lower <= value
                assert upper is None or value <= upper
    assert learned or not asked
