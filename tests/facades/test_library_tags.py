"""Tags of custom operators: what their operands look like, eagerly and in compiled programs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import RushlightError

F = rl.nn.functional
Tag = rl.library.Tag

MAKERS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x.t(),
    lambda x: (x + 1).t(),
    lambda x: x.t() * 2,
    lambda x: F.pad(x, (1, 1)),
    lambda x: x[:, 1:],
    lambda x: x[:, ::2],
    lambda x: x[::2].t(),
    lambda x: x.unsqueeze(0).expand(3, -1, -1),
    lambda x: (x @ x.t()).t(),
    lambda x: x.view(2, 3, 2, 5).permute(0, 2, 3, 1) + 1,
    lambda x: x.view(1, 2, 6, 5).to(memory_format=rl.channels_last) * 2,
    lambda x: x[:0].t(),
)


@pytest.fixture
def looking() -> Iterator[Callable[..., tuple[Any, list[Any]]]]:
    """Makes operators with tags that note the strides of what they are given."""
    made: list[Any] = []

    def make(tags: object = ()) -> tuple[Any, list[Any]]:
        seen: list[Any] = []

        def look(x: rl.Tensor) -> rl.Tensor:
            seen.append((tuple(x.shape), tuple(x.stride())))
            return (x + 1).contiguous()

        op = rl.library.custom_op(f"tagged::look{len(made)}", look, mutates_args=(), tags=tags)
        op.register_fake(lambda x: rl.empty(x.shape))
        made.append(op)
        return op, seen

    yield make
    for op in made:
        op.remove()


def graphs(seed: int, count: int) -> Iterator[Callable[[Any], Any]]:
    """Random programs that make an operand."""
    draw = random.Random(seed)
    for _ in range(count):
        first, second = draw.choice(MAKERS), draw.choice([lambda x: x, lambda x: x * 3, lambda x: x.transpose(0, -1)])
        yield lambda x, first=first, second=second: second(first(x))


@pytest.mark.row("5.2")
def test_operands_have_the_strides_of_eager_code(looking: Callable[..., tuple[Any, list[Any]]]):
    op, seen = looking((Tag.needs_exact_strides, Tag.pt2_compliant_tag))
    for make in (*MAKERS, *graphs(0, 38)):
        x = rl.randn(6, 10)
        expected = op(make(x))
        found = rl.compile(lambda x, make=make: op(make(x)), fullgraph=True, dynamic=False)(x)
        (shape, strides), (found_shape, found_strides) = seen
        assert shape == found_shape
        assert strides == found_strides or 0 in shape
        assert rl.equal(found, expected)
        seen.clear()
        rl.compiler.reset()


@pytest.mark.row("5.2")
def test_operands_are_row_major(looking: Callable[..., tuple[Any, list[Any]]]):
    op, seen = looking(Tag.needs_contiguous_strides)
    for make in MAKERS:
        x = rl.randn(6, 10)
        found = rl.compile(lambda x, make=make: op(make(x)), fullgraph=True, dynamic=False)(x)
        assert rl.equal(found, make(x) + 1)
        shape, strides = seen[-1]
        assert 0 in shape or strides == rl.empty(shape).stride()
        rl.compiler.reset()


@pytest.mark.row("5.2")
@pytest.mark.parametrize("tags", [(), Tag.needs_fixed_stride_order, [Tag.flexible_layout]])
def test_without_a_promise_gaps_may_go_and_the_order_stays(looking: Callable[..., tuple[Any, list[Any]]], tags: object):
    op, seen = looking(tags)
    found = rl.compile(lambda x: op(x[:, 1:]), fullgraph=True)(rl.ones(4, 5))
    assert rl.equal(found, rl.full((4, 4), 2.0))
    assert seen[-1] == ((4, 4), (4, 1))
    found = rl.compile(lambda x: op(x.t()), fullgraph=True)(rl.ones(4, 5))
    assert rl.equal(found, rl.full((5, 4), 2.0))
    assert seen[-1] == ((5, 4), (1, 5))


@pytest.mark.row("5.2")
def test_an_operator_with_a_rule_of_its_own_is_what_the_rule_computes(looking: Callable[..., tuple[Any, list[Any]]]):
    with rl.library.Library("tagged", "FRAGMENT") as library:
        library.define("strides(Tensor x) -> Tensor", tags=Tag.needs_exact_strides)
        library.impl("strides", lambda x: x * 10 + x.stride(0), "CompositeImplicitAutograd")
        for make in MAKERS[:6]:
            x = rl.randn(6, 10)
            expected = rl.ops.tagged.strides(make(x))
            found = rl.compile(lambda x, make=make: rl.ops.tagged.strides(make(x)), fullgraph=True, dynamic=False)(x)
            assert rl.equal(found, expected)
            rl.compiler.reset()


@pytest.mark.parametrize("tags", ["needs_exact_strides", 3, (Tag.flexible_layout, Tag.needs_exact_strides)])
def test_what_is_no_tag_and_what_contradicts_is_refused(looking: Callable[..., tuple[Any, list[Any]]], tags: object):
    with pytest.raises(RushlightError) as caught:
        looking(tags)
    assert caught.value.code == "A010"
