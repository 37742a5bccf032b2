"""Tensors among the arguments that the graph does not take: what is asked of them is guarded."""

from functools import partial, reduce
from operator import attrgetter

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


def of_a_named_attribute(x, y):
    return x * getattr(y, "ndim")  # noqa: B009 - a call of C that takes an attribute


def of_a_method(x, y):
    dim = y.dim
    return x * dim()


def of_a_closure(x, y):
    return x * sorted([1], key=lambda _: y.dim())[0] * sum(map(len, [y.shape]))


def of_the_rest(x, *rest):
    return x * sum(map(getattr, rest, ["ndim"]))


def of_a_pattern(x, y):
    match y:
        case rl.Tensor(ndim=2):
            return x * 2
        case _:
            return x * 3


class Holder:
    def __init__(self, y):
        self.y = y

    rank = property(attrgetter("y.ndim"))


def of_a_getter_of_an_object(x, y):
    return x * y.rank


def of_a_class_that_answers_itself(x, y):
    return x * 2 if isinstance(y, rl.FloatTensor) else x * 3


def of_several_classes(x, y):
    return x * 2 if isinstance(y, (int, rl.FloatTensor | bool)) else x * 3


def of_a_class_in_a_pattern(x, y):
    match y:
        case rl.FloatTensor():
            return x * 2
    return x * 3


def behind_a_break(x, y):
    kept = y
    print(end="")
    return x * 2 if isinstance(kept, rl.FloatTensor) else x * kept.ndim


def of_a_partial(x, y):
    return x * partial(getattr, y)("ndim")


def of_a_reduction(x, y):
    return x * reduce(getattr, ["ndim"], y)


def of_what_c_calls_back(x, y):
    def asked():
        yield y

    return x * sum(map(rl.Tensor.dim, asked()))


def of_a_nested_compiled_function(x, y):
    return rl.compile(lambda one, other: one * other.ndim)(x, y)


UNUSED = [rl.ones(2, 3), rl.ones(2, 3, dtype=rl.float64), rl.ones(3, 2).mT, rl.ones(3), rl.ones(4, 3), rl.ones(2, 3)]


FUNCTIONS = [of_dtype, of_rank, of_layout, of_a_dead_result, of_sizes, of_a_named_attribute, of_a_method, of_a_closure]
FUNCTIONS += [of_the_rest, of_a_pattern, of_a_class_that_answers_itself, of_several_classes, of_a_class_in_a_pattern]
FUNCTIONS += [of_a_partial, of_a_reduction, of_what_c_calls_back, of_a_nested_compiled_function]


@pytest.mark.parametrize("options", [{"fullgraph": True}, {"fullgraph": False}, {"dynamic": False}])
@pytest.mark.parametrize("function", FUNCTIONS)
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


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_tensor_that_is_only_handed_on_has_any_form(fullgraph):
    def first(one, other):
        return one

    def program(x, y, z):
        kept = y
        if kept is None or callable(kept) or not isinstance(kept, rl.Tensor):
            return x
        return first(x, kept) + first(z, kept)

    rl.compiler.reset()
    compiled = rl.compile(program, fullgraph=fullgraph)
    for y in UNUSED:
        assert compiled(rl.ones(2), y, rl.ones(2)).tolist() == [2.0, 2.0]
    assert rl.compiler.graph_count() == 1


@pytest.mark.parametrize("dynamic", [None, False])
def test_what_a_property_of_an_object_asks_a_tensor_is_guarded(dynamic):
    compiled = rl.compile(of_a_getter_of_an_object, dynamic=dynamic)
    for y in (*UNUSED, *UNUSED):
        x = rl.ones(2)
        assert compiled(x, Holder(y)).tolist() == of_a_getter_of_an_object(x, Holder(y)).tolist()


def test_what_is_asked_of_an_unused_tensor_behind_a_break_is_guarded():
    compiled = rl.compile(behind_a_break)
    for y in (*UNUSED, *UNUSED):
        x = rl.ones(2)
        assert compiled(x, y).tolist() == behind_a_break(x, y).tolist()
