"""What users of other systems ran into with sizes that vary: how many graphs, and results as numpy has them.

`docs/threads.md` lists the threads. Calls go through sizes 0 and 1, rows that lie on each other and rows that lie
apart, and each is compared with eager bit by bit as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.compiler import graph_count, mark_dynamic
from rushlight.support.errors import RushlightError
from tensors import data, same


def agrees(compiled: Any, function: Any, meaning: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> None:
    """Each call gives eager's bits, and what numpy gives."""
    for args in calls:
        found = compiled(*args)
        assert same(found, function(*args))
        wanted = meaning(*[arg.numpy() if isinstance(arg, rl.Tensor) else arg for arg in args])
        assert tuple(found.shape) == wanted.shape
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)


def refused(code: str, call: Callable[[], Any], said: str | None = None) -> str:
    """The text of the error of that code which a call raises."""
    with pytest.raises(RushlightError, match=said) as caught:
        call()
    assert caught.value.code == code
    return str(caught.value)


def apart(*shape: int) -> Any:
    """Numbers whose last dim has every second element of its storage."""
    return data(*shape[:-1], 2 * shape[-1])[..., ::2]


# Arguments that nothing reads.


@pytest.mark.thread("pytorch#131893")
def test_an_argument_that_only_gets_another_name_constrains_nothing():
    def doubled(x: Any, y: Any) -> Any:
        z = y
        return x * 2 if z is y else z

    tensors = [rl.ones(1).expand(7), apart(5), data(3, 4), data(3, 4).mT, rl.ones(())]
    unread = [*[data(rows) for rows in (4, 6, 0, 1)], *tensors]
    compiled = rl.compile(doubled)
    agrees(compiled, doubled, lambda x, y: x * 2, [(data(rows), y) for y in unread for rows in (3, 8)])
    assert graph_count() == 1


@pytest.mark.thread("pytorch#106067")
@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_unread_argument_that_is_empty_at_first_constrains_nothing(first: int):
    def shifted(x: Any, y: Any) -> Any:
        return y + 2

    compiled = rl.compile(shifted)
    agrees(compiled, shifted, lambda x, y: y + 2, [(data(rows), data(2)) for rows in (first, 2, 1, 0, 5)])
    assert graph_count() == 1


# Numbers.


@pytest.mark.thread("pytorch#171320")
def test_numbers_that_are_multiplied_with_each_other_first_vary_freely():
    def step(p: Any, a: float, b: float) -> None:
        p.mul_(p * (a * b))

    compiled = rl.compile(step)
    a = 0.0
    for _ in range(1000):
        a += 0.01
        p, eager, wanted = data(10), data(10), data(10).numpy()
        compiled(p, a, 1.0)
        step(eager, a, 1.0)
        assert same(p, eager)
        np.testing.assert_allclose(p.numpy(), wanted * (wanted * a), rtol=1e-5)
    assert graph_count() == 1


@pytest.mark.thread("pytorch#171320")
@pytest.mark.parametrize("first", [0.0, 1.0, float("nan"), 0.3])
def test_no_value_of_a_number_is_special(first: float):
    def function(x: Any, c: float) -> Any:
        return x * c + (c - 1.0) / 2.0

    values = [first, 0.0, -0.0, 1.0, -1.0, 0.3, 1e-30, float("inf"), float("-inf"), float("nan")]
    compiled = rl.compile(function)
    with np.errstate(invalid="ignore"):
        agrees(
            compiled, function, lambda x, c: x * np.float32(c) + np.float32((c - 1) / 2), [(data(5), c) for c in values]
        )
    assert graph_count() == 1


# Branches on shapes.


@pytest.mark.thread("pytorch#113875")
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_a_branch_on_a_whole_shape_goes_the_right_way_in_any_order(order: tuple[int, ...]):
    def function(x: Any) -> Any:
        if x.size() != (5, 1, 2, 3):
            return x * 2
        return x + 1

    def meaning(x: Any) -> Any:
        return x * 2 if x.shape != (5, 1, 2, 3) else x + 1

    compiled = rl.compile(function)
    shapes = [(5, 1, 2, 3), (4, 1, 2, 3), (5, 2, 2, 3)]
    agrees(compiled, function, meaning, [(data(*shapes[place]),) for place in (*order, *order)])
    assert graph_count() == 3  # the shape, and the dim in which others differ from it first
    others = [(0, 1, 2, 3), (1, 1, 2, 3), (7, 9, 9, 9), (5, 0, 2, 3), (5, 3, 0, 1)]
    agrees(compiled, function, meaning, [(data(*shape),) for shape in (*others, *shapes)])
    assert graph_count() == 3


# A constant beside a size.


@pytest.mark.thread("pytorch#135796")
def test_a_flag_beside_a_dynamic_size_does_not_fix_it():
    def twice(x: Any, y: bool) -> Any:
        return x.repeat([2])

    def meaning(x: Any, y: bool) -> Any:
        return np.tile(x, 2)

    x = data(20)
    mark_dynamic(x, 0)
    compiled = rl.compile(twice)
    assert compiled(x, True).shape == (40,) and compiled(data(40), True).shape == (80,)
    agrees(compiled, twice, meaning, [(data(rows), True) for rows in (0, 1, 40, 80)])
    assert graph_count() == 1
    agrees(compiled, twice, meaning, [(data(40), False), (data(1), False)])
    assert graph_count() == 2


@pytest.mark.thread("pytorch#135796")
def test_a_specification_with_a_flag_has_one_artifact():
    def twice(x: Any, y: bool) -> Any:
        return x.repeat([2]) if y else x

    compiled = rl.compile(twice, specs="f32[N] strides any, True")
    inputs = [*[data(rows) for rows in (20, 40, 0, 1)], apart(40), rl.ones(1).expand(40)]
    agrees(compiled, twice, lambda x, y: np.tile(x, 2), [(x, True) for x in inputs])
    assert graph_count() == 1
    refused("C022", lambda: compiled(data(40), False), "argument 1 is False")


# Layouts.


def guided(x: Any, guidance: Any) -> Any:
    return x * guidance[:, None] + guidance.sum()


def guided_meaning(x: Any, guidance: Any) -> Any:
    return x * guidance[:, None] + guidance.sum()


def guidances(*batches: int) -> list[tuple[Any, ...]]:
    """Inputs with one number that is expanded over the batch."""
    return [(data(batch, 4), rl.full((1,), 3.5).expand(batch)) for batch in batches]


@pytest.mark.thread("pytorch#160271")
def test_any_batch_and_layout_of_the_guidance_is_one_artifact():
    compiled = rl.compile(guided, specs="f32[B, 4], f32[B] strides any")
    calls = [*guidances(1, 2, 3, 0, 1), (data(2, 4), data(2)), (data(3, 4), apart(3))]
    agrees(compiled, guided, guided_meaning, calls)
    assert graph_count() == 1


@pytest.mark.thread("pytorch#160271")
@pytest.mark.parametrize(("first", "graphs"), [(1, 2), (2, 1)])
def test_an_expanded_guidance_makes_at_most_one_more_graph(first: int, graphs: int):
    """One number for a batch of one lies as any does; for more, the rows lie on each other."""
    compiled = rl.compile(guided)
    agrees(compiled, guided, guided_meaning, guidances(first, 2, 3, 1, 0, 7, 2))
    assert graph_count() == graphs


# Sizes that were said to vary, and that the program fixes.


class Tokens(rl.nn.Module):
    """Embeddings of tokens, with as many positions as the example has."""

    def __init__(self) -> None:
        super().__init__()
        self.words = rl.nn.Embedding(10, 4)
        self.positions = rl.nn.Parameter(rl.ones(6, 4))

    def forward(self, tokens: Any, mask: Any) -> Any:
        words = self.words(tokens) * mask[..., None]
        return words + self.positions


def along_edges(places: Any, sources: Any, targets: Any) -> Any:
    steps = places[sources] - places[targets]
    return (steps * rl.ones(12, 1)).sum(0)


@pytest.mark.thread("pytorch#140011")
@pytest.mark.parametrize("specs", [None, "i64[B, S], f32[B, S] where S <= 128"])
def test_a_length_that_the_model_fixes_is_an_error_with_its_line(specs: str | None):
    tokens, mask = rl.zeros(2, 6).long(), rl.ones(2, 6)
    for tensor in (tokens, mask):
        mark_dynamic(tensor, 1, max=128)
    text = refused("C011", lambda: rl.compile(Tokens(), specs=specs)(tokens, mask), "needs it to be 6")
    assert "in forward:  return words + self.positions" in text


@pytest.mark.thread("pytorch#134137")
@pytest.mark.parametrize("specs", [None, "f32[N, 3], i64[E], i64[E]"])
def test_a_number_of_edges_that_the_program_fixes_is_an_error_with_its_line(specs: str | None):
    sources, targets = rl.zeros(12).long(), rl.ones(12).long()
    for tensor in (sources, targets):
        mark_dynamic(tensor, 0)
    text = refused("C011", lambda: rl.compile(along_edges, specs=specs)(data(5, 3), sources, targets), "to be 12")
    assert "in along_edges:  return (steps * rl.ones(12, 1)).sum(0)" in text


# Results' shapes.


@pytest.mark.thread("tinygrad#5360")
def test_a_sum_with_a_number_has_the_shape_of_each_call():
    def function(t: Any) -> Any:
        return t + 1

    compiled = rl.compile(function)
    agrees(compiled, function, function, [(data(rows),) for rows in (1, 2, 3, 4, 0, 1)])
    assert graph_count() == 1


@pytest.mark.thread("tinygrad#11852")
def test_a_flattened_transpose_has_the_shape_of_each_call():
    def function(a: Any) -> Any:
        return (a + 1).T.flatten()

    column = rl.tensor([1.0, 2.0, 3.0]).unsqueeze(1)
    compiled = rl.compile(function)
    agrees(compiled, function, function, [(column.expand(3, columns).contiguous(),) for columns in (1, 2, 3, 4, 0)])
    agrees(compiled, function, function, [(data(rows, 2),) for rows in (5, 1, 0)])
    assert graph_count() == 1
    agrees(compiled, function, function, [(column.expand(3, columns),) for columns in (2, 3, 4, 0, 1)])
    assert graph_count() == 2  # rows of one element, again and again


@pytest.mark.thread("mlx#2596")
@pytest.mark.thread("mlx#2599")
@pytest.mark.parametrize(
    ("function", "meaning"), [(rl.abs, np.abs), (rl.zeros_like, np.zeros_like)], ids=["abs", "zeros"]
)
def test_a_function_compiled_for_a_scalar_serves_other_ranks_by_a_graph_for_each(function: Any, meaning: Any):
    compiled = rl.compile(lambda x: function(x))
    shapes = [(), (3,), (2,), (0,), (1,), (2, 5), (0, 5), (1, 1), (4, 1, 2), ()]
    agrees(compiled, function, meaning, [(data(*shape),) for shape in shapes])
    assert graph_count() == 4


# Sweeps.


def likelihood(parameters: Any, observed: Any) -> Any:
    """The log likelihood of observations under as many modes as there are parameters."""
    return (-((observed[:, None] - parameters) ** 2)).logsumexp(1).sum()


def likelihood_meaning(parameters: Any, observed: Any) -> Any:
    return np.log(np.exp(-((observed[:, None] - parameters) ** 2)).sum(1)).sum()


@pytest.mark.thread("jax#2521")
def test_a_chain_whose_number_of_parameters_jumps_compiles_once():
    compiled = rl.compile(likelihood)
    counts = np.random.default_rng(0).integers(1, 40, 30)
    agrees(compiled, likelihood, likelihood_meaning, [(data(int(n)), data(20)) for n in (*counts, 1, 2)])
    assert graph_count() == 1


@pytest.mark.thread("jax#38584")
def test_a_sum_of_matrices_compiles_once_for_a_number_of_dims():
    def add(a: Any, b: Any) -> Any:
        return a + b

    compiled = rl.compile(add)
    for number, lead in enumerate([(), (3,), (2, 2)], 1):
        shapes = [(*lead, rows, columns) for rows, columns in ((4, 4), (3, 5), (1, 1), (0, 2), (7, 1), (1, 9))]
        agrees(compiled, add, add, [(data(*shape), data(*shape) * 2) for shape in shapes])
        assert graph_count() == number


def sampled(images: Any, rows: Any, columns: Any) -> Any:
    """Values of images of [B, H, W, C] at places between pixels."""
    batch, height, width, _ = images.shape
    each = rl.arange(batch)[:, None]
    top, left = rows.floor().long().clamp(0, height - 2), columns.floor().long().clamp(0, width - 2)
    down, right = (rows - top)[..., None], (columns - left)[..., None]
    upper = images[each, top, left] * (1 - right) + images[each, top, left + 1] * right
    lower = images[each, top + 1, left] * (1 - right) + images[each, top + 1, left + 1] * right
    return upper * (1 - down) + lower * down


def sampled_meaning(images: Any, rows: Any, columns: Any) -> Any:
    """The mean of all pixels, weighed by how near they are."""
    _, height, width, _ = images.shape
    near_rows = np.maximum(0, 1 - np.abs(rows[..., None] - np.arange(height)))
    near_columns = np.maximum(0, 1 - np.abs(columns[..., None] - np.arange(width)))
    return np.einsum("bhwc,bnh,bnw->bnc", images, near_rows, near_columns)


@pytest.mark.thread("jax#5144")
def test_sampling_images_of_any_size_at_any_number_of_places_compiles_once():
    def inputs(batch: int, height: int, width: int, channels: int, places: int) -> tuple[Any, ...]:
        rng = np.random.default_rng(places)
        at = [rng.uniform(0, side - 1, (batch, places)).astype(np.float32) for side in (height, width)]
        return (data(batch, height, width, channels), *map(rl.tensor, at))

    compiled = rl.compile(sampled)
    sizes = ((2, 5, 6, 1, 9), (3, 4, 4, 2, 7), (1, 2, 2, 1, 1), (2, 3, 5, 1, 0), (0, 4, 4, 1, 3), (1, 9, 2, 3, 40))
    agrees(compiled, sampled, sampled_meaning, [inputs(*size) for size in sizes])
    assert graph_count() == 1


# Constraints.


def tiled(x: Any) -> Any:
    return x.tile(3)


def tiled_meaning(x: Any) -> Any:
    return np.tile(x, 3)


@pytest.mark.thread("jax#23456")
@pytest.mark.parametrize(
    ("fact", "rows", "bad"),
    [("B == 5", [5], [4, 0]), ("B >= 0", [5, 0, 1], []), ("B <= 0", [0], [1]), ("B == 0", [0], [1, 5])],
)
def test_bounds_of_a_size_may_fix_it_or_be_zero(fact: str, rows: list[int], bad: list[int]):
    compiled = rl.compile(tiled, specs=f"f32[B] where {fact}")
    agrees(compiled, tiled, tiled_meaning, [(data(size),) for size in rows])
    assert graph_count() == 1
    for size in bad:
        refused("C022", lambda size=size: compiled(data(size)), f"B is {size}")


@pytest.mark.thread("jax#23456")
@pytest.mark.parametrize("fact", ["B <= 0", "B == 0"])
def test_an_empty_argument_beside_what_is_computed_constrains_nothing(fact: str):
    def chosen(x: Any, y: Any) -> Any:
        return rl.where(x, 2, 3)

    compiled = rl.compile(chosen, specs=f"bool[A], i32[B] where {fact}")
    none = rl.zeros(0, dtype=rl.int32)
    agrees(compiled, chosen, lambda x, y: np.where(x, 2, 3), [(data(rows) > 0, none) for rows in (4, 0, 1)])
    assert graph_count() == 1
    refused("C022", lambda: compiled(data(4) > 0, rl.ones(1, dtype=rl.int32)), "B is 1")


@pytest.mark.thread("jax#23456")
def test_a_promise_about_a_size_is_checked_at_each_call():
    def five(x: Any) -> Any:
        rl.check(x.shape[0] == 5)
        rl.check(x.shape[0] >= 0)
        return x.tile(3)

    compiled = rl.compile(five)
    agrees(compiled, five, tiled_meaning, [(data(5),), (rl.ones(1).expand(5),)])
    for rows in (4, 0, 1):
        assert "in five:  rl.check(x.shape[0] == 5)" in refused("R002", lambda rows=rows: compiled(data(rows)))


@pytest.mark.thread("jax#23437")
@pytest.mark.parametrize("specs", ["f32[2*A], f32[2*B] where A == B", "f32[2*A], f32[2*A]"])
def test_variables_that_are_said_to_be_equal_keep_their_multiples(specs: str):
    def add(x: Any, y: Any) -> Any:
        return x + y

    compiled = rl.compile(add, specs=specs)
    agrees(compiled, add, add, [(data(rows), data(rows) * 3) for rows in (4, 2, 0, 8)])
    assert graph_count() == 1
    for one, other in ((8, 4), (2, 4), (3, 3), (1, 1)):
        refused("C022", lambda one=one, other=other: compiled(data(one), data(other)))


@pytest.mark.thread("jax#23437")
@pytest.mark.parametrize("specs", ["f32[2*A], f32[2*B]", "f32[A], f32[B]", None])
def test_sizes_that_the_program_says_are_equal_are_checked(specs: str | None):
    def add(x: Any, y: Any) -> Any:
        rl.check(x.shape[0] == y.shape[0])
        return x + y

    compiled = rl.compile(add, specs=specs)
    agrees(compiled, add, lambda x, y: x + y, [(data(rows), data(rows) * 3) for rows in (4, 2, 0, 8)])
    for one, other in ((8, 4), (2, 4), (0, 2)):
        text = refused("R002", lambda one=one, other=other: compiled(data(one), data(other)))
        assert "in add:  rl.check(x.shape[0] == y.shape[0])" in text
    assert graph_count() == 1


# Sizes that values tell.


def doubled(x: Any) -> Any:
    """A result that is allocated with the shape of what a mask has kept."""
    kept = x[x > 0]
    found = rl.empty(kept.shape)
    found.copy_(kept * 2)
    return found


def averaged(x: Any) -> Any:
    """A sum over what a mask has kept, divided by how many there are."""
    kept = x[x > 0]
    return (kept / kept.shape[0]).cumsum(0)


def validated(x: Any) -> Any:
    """A mask's part of the rows, with a check of its shape as libraries have it."""
    kept = x[:, None][x > 0]
    if kept.ndim != 2 or kept.shape[1] != 1:
        raise ValueError("columns")
    return kept @ rl.ones(1, 3)


MASKED = {
    "allocate": (doubled, lambda x: x[x > 0] * 2),
    "normalise": (averaged, lambda x: np.cumsum(x[x > 0] / max((x > 0).sum(), 1))),
    "validate": (validated, lambda x: np.repeat(x[x > 0][:, None], 3, 1)),
}


@pytest.mark.thread("sklearn#26724")
@pytest.mark.parametrize("name", MASKED)
def test_the_shape_of_what_a_mask_keeps_is_used_in_one_graph(name: str):
    function, meaning = MASKED[name]
    compiled = rl.compile(function)
    agrees(compiled, function, meaning, [(x,) for x in (data(6), data(1), data(0), rl.zeros(5), rl.ones(3), data(40))])
    assert graph_count() == 1
    agrees(compiled, function, meaning, [(rl.ones(1).expand(4),), (apart(7),), (rl.zeros(1).expand(9),), (apart(30),)])
    assert graph_count() == 3  # a layout has a graph of its own


LABELS = ([1, 2, 2, 3], [7], [], [4, 4, 4], [5, 0, 5, 1, 9])


def clusters(labels: Any) -> Any:
    count = rl.sym_int(rl.unique(labels).shape[0])
    return rl.zeros(count, 2) + count


def clusters_meaning(labels: Any) -> Any:
    count = int(np.unique(labels).shape[0])
    return np.full((count, 2), count, np.float32)


@pytest.mark.thread("array-api#834")
def test_the_number_of_distinct_values_is_a_size_in_one_graph():
    compiled = rl.compile(clusters)
    calls = [(rl.tensor(np.array(labels, np.int64)),) for labels in LABELS]
    agrees(compiled, clusters, clusters_meaning, calls)
    assert graph_count() == 1
    agrees(compiled, clusters, clusters_meaning, [(rl.tensor([4]).expand(6),), (rl.arange(8)[::2],)])
    assert graph_count() == 3


@pytest.mark.thread("array-api#834")
def test_the_number_of_distinct_values_as_a_plain_int_is_eager_code_alone():
    def count(labels: Any) -> int:
        return int(rl.unique(labels).shape[0])

    for labels in LABELS:
        assert count(rl.tensor(np.array(labels, np.int64))) == len(set(labels))
    text = refused("C002", lambda: rl.compile(count, fullgraph=True)(rl.tensor([1, 2, 2])))
    assert "in count:  return int(rl.unique(labels).shape[0])" in text
