"""Tensors among the arguments that the graph does not take: what is asked of them is guarded."""

import pytest

import rushlight as rl


def of_dtype(x, y):
    return x * (2 if y.dtype == rl.float32 else 3)


def of_rank(x, y):
    return x * y.dim()


def of_layout(x, y):
    return x * (2 if y.is_contiguous() else 3)


def of_a_dead_result(x, y):
    return x * (2 if (x + y).dtype == rl.float32 else 3)


def of_sizes(x, y):
    return x * y.shape[0]


UNUSED = [rl.ones(2, 3), rl.ones(2, 3, dtype=rl.float64), rl.ones(3, 2).mT, rl.ones(3), rl.ones(4, 3), rl.ones(2, 3)]


@pytest.mark.parametrize("options", [{"fullgraph": True}, {"fullgraph": False}, {"dynamic": False}])
@pytest.mark.parametrize("function", [of_dtype, of_rank, of_layout, of_a_dead_result, of_sizes])
def test_what_is_asked_of_a_tensor_that_the_graph_does_not_take_is_guarded(function, options):
    compiled = rl.compile(function, **options)
    for y in (*UNUSED, *UNUSED):
        x = rl.ones(1)
        assert compiled(x, y).tolist() == function(x, y).tolist()


def test_a_tensor_that_nothing_asks_for_has_any_size():
    rl.compiler.reset()
    compiled = rl.compile(lambda x, y: x + 1)
    for size in range(2, 9):
        compiled(rl.ones(2), rl.ones(size, 3))
    assert rl.compiler.graph_count() == 1
