"""Reading and writing at places that tensors name."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from opcheck import World, check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.ops import OPERATORS
from rushlight.ops.index import read, write

MODULES = (
    read,
    write,
)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


def test_an_index_out_of_range_reads_nothing_and_writes_nothing():
    world = World("lower")
    x = world.lift(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    far = world.lift(np.array([[7, -9, 1]]))
    np.testing.assert_array_equal(OPERATORS["gather"](x, 1, far).array, [[0, 0, 2]])
    np.testing.assert_array_equal(OPERATORS["embedding"](far, x).array, [[[0, 0, 0], [0, 0, 0], [4, 5, 6]]])
    np.testing.assert_array_equal(OPERATORS["scatter_add"](x, 1, far, far * 1.0).array, [[1, 3, 3], [4, 5, 6]])
    ones = OPERATORS["embedding_backward"](
        world.lift(np.ones((2, 2), np.float32)), world.lift(np.array([0, 1])), 2, None
    )
    np.testing.assert_array_equal(ones.array, np.ones((2, 2)))


OF_ONE_PLACE = {
    "gather": lambda x, index: rl.gather(x, 0, index.reshape(())),
    "gather of several": lambda x, index: rl.gather(x, 0, index),
    "index_select": lambda x, index: rl.index_select(x, 0, index),
    "scatter": lambda x, index: x.scatter(0, index.reshape(()), rl.tensor(2.0)),
    "scatter_add": lambda x, index: x.scatter_add(0, index.reshape(()), rl.tensor(2.0)),
    "scatter_reduce": lambda x, index: x.scatter_reduce(0, index.reshape(()), rl.tensor(2.0), "prod"),
    "index_add": lambda x, index: x.index_add(0, index, rl.tensor(2.0)),
}


@pytest.mark.parametrize("name", list(OF_ONE_PLACE))
def test_a_tensor_without_dims_has_one_place(name):
    call, x = OF_ONE_PLACE[name], rl.tensor(3.0)
    for function in (call, rl.compile(call)):
        assert function(x, rl.tensor([0])).sum().item() in (2.0, 3.0, 5.0, 6.0)
        for far in (1, -2):
            with pytest.raises(rl.IndexRangeError, match="out of range"):
                function(x, rl.tensor([far]))


def test_no_dims_are_as_good_as_one_of_size_1():
    for function in (rl.gather, rl.compile(rl.gather)):
        x = rl.tensor(3.0, requires_grad=True)
        several = function(x, 0, rl.tensor([0, 0]))
        assert several.tolist() == [3.0, 3.0]
        assert rl.autograd.grad(several.sum(), x)[0].item() == 2.0
        row = rl.tensor([1.0, 2.0], requires_grad=True)
        one = function(row, -1, rl.tensor(1))
        assert one.shape == () and one.item() == 2.0
        assert rl.autograd.grad(one, row)[0].tolist() == [0.0, 1.0]
        with pytest.raises(rl.ShapeError):
            function(rl.ones(2, 2), 0, rl.tensor(0))


def test_negative_indices_count_from_the_back():
    world = World("lower")
    x = world.lift(np.arange(5, dtype=np.float32))
    np.testing.assert_array_equal(OPERATORS["index"](x, [world.lift(np.array([-1, 0]))], (0,)).array, [4, 0])


def test_padding_row_of_an_embedding_gets_no_gradient():
    for by in ("ref", "lower"):
        world = World(by, tape=True)
        table = world.lift(np.ones((3, 2), np.float32))
        rows = OPERATORS["embedding"](world.lift(np.array([0, 1, 1])), table, 0)
        found = world.backward([rows], [world.lift(np.ones((3, 2), np.float32))])
        np.testing.assert_array_equal(found[id(table)].array, [[0, 0], [2, 2], [0, 0]])


def test_gradient_of_an_embedding_is_summed_in_float32():
    world = World("lower", tape=True)
    table = world.lift(np.ones((2, 1), ml_dtypes.bfloat16))
    rows = OPERATORS["embedding"](world.lift(np.zeros(1000, np.int64)), table)
    found = world.backward([rows], [world.lift(np.ones((1000, 1), ml_dtypes.bfloat16))])
    assert float(found[id(table)].array[0, 0]) == 1000.0


def test_places_of_advanced_indices_as_in_numpy():
    x = np.arange(60).reshape(3, 4, 5)
    world = World("lower")
    rows, columns = world.lift(np.array([0, 2])), world.lift(np.array([[1], [3]]))
    together = OPERATORS["index"](world.lift(x), [rows, columns], (1, 2))
    np.testing.assert_array_equal(together.array, x[:, rows.array, columns.array])
    apart = OPERATORS["index"](world.lift(x), [rows, columns], (0, 2))
    np.testing.assert_array_equal(apart.array, x[rows.array, :, columns.array])


def test_index_put_writes_and_adds_at_places():
    x, rows = rl.zeros(3, 2), rl.tensor([0, 0, 2])
    assert x.index_put_((rows,), rl.tensor([[1.0, 2], [3, 4], [5, 6]]), accumulate=True) is x
    assert x.tolist() == [[4, 6], [0, 0], [5, 6]]
    assert rl.index_put(x, (None, rl.tensor([1])), rl.tensor(9.0)).tolist() == [[4, 9], [0, 9], [5, 9]]
    assert x.index_put([x[:, 0] == 4], rl.tensor([7.0, 8])).tolist() == [[7, 8], [0, 0], [5, 6]]
    for indices, values, code in (((rows,), rl.tensor(1), "D002"), (3, rl.tensor(1.0), "A001"), ((rows,), 1.0, "A001")):
        with refused(code):
            x.index_put_(indices, values)


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("gather", (np.zeros((2, 3)), 1, np.zeros((2, 3))), "I004"),
        ("gather", (np.zeros((2, 3)), 1, np.zeros(2, np.int64)), "S002"),
        ("index_select", (np.zeros((2, 3)), 1, np.zeros((1, 1), np.int64)), "S002"),
        ("embedding", (np.zeros(2, np.int64), np.zeros(3)), "S002"),
        ("index_add", (np.zeros((2, 3)), 0, np.zeros(2, np.int64), np.zeros((1, 3))), "S014"),
        ("index_put", (np.zeros((2, 3)), [np.zeros(2, np.int64)], np.zeros((2, 4)), (0,)), "S001"),
        ("scatter_add", (np.zeros((2, 3)), 0, np.zeros((2, 3), np.int64), np.zeros((2, 3), np.float32)), "D002"),
    ],
)
def test_bad_operands_are_refused(name, args, code):
    world = World()
    with refused(code):
        OPERATORS[name](*[item if isinstance(item, (int, tuple)) else world.lift(item) for item in args])


WRITES_AT_PLACES = {
    "index_put": lambda x, places, values: x.index_put_((places,), values),
    "index_put-add": lambda x, places, values: x.index_put_((places,), values, accumulate=True),
    "setitem": lambda x, places, values: x.__setitem__(places, values),
    "index_copy": lambda x, places, values: x.index_copy_(0, places, values),
    "index_add": lambda x, places, values: x.index_add_(0, places, values),
    "scatter": lambda x, places, values: x.scatter_(0, places, values),
    "scatter_add": lambda x, places, values: x.scatter_add_(0, places, values),
    "scatter_reduce": lambda x, places, values: x.scatter_reduce_(0, places, values, "amax"),
    "masked_scatter": lambda x, places, values: x.masked_scatter_(x > 0, values),
}


@pytest.mark.parametrize("way", ["eager", "compiled"])
@pytest.mark.parametrize("name", WRITES_AT_PLACES)
def test_what_is_written_and_where_may_be_the_target(name: str, way: str):
    write = WRITES_AT_PLACES[name]
    asked = write if way == "eager" else rl.compile(write)
    others: dict[str, Callable] = {
        "itself": lambda x: (x, x),
        "another name": lambda x: (x.view_as(x), x),
        "backwards": lambda x: (x, x.flip(0)),
        "values": lambda x: (x.flip(0), x),
        "overlapping": lambda x: (x.flip(0)[:3], x[1:]),
    }
    for told, operands in others.items():
        x, wanted = rl.tensor([3, 0, 1, 2]), rl.tensor([3, 0, 1, 2])
        places, values = operands(x)
        write(wanted, places.clone(), values.clone())
        asked(x, places, values)
        assert x.tolist() == wanted.tolist(), told


@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_uint8_tensors_are_masks(way: str):
    x, mask = rl.arange(5.0), rl.tensor([1, 0, 2, 0, 1], dtype=rl.uint8)
    taken: Callable = lambda x, mask: x[mask]  # noqa: E731
    taken = taken if way == "eager" else rl.compile(taken)
    assert taken(x, mask).tolist() == [0, 2, 4]
    assert x[np.array([1, 0, 0, 0, 1], np.uint8)].tolist() == [0, 4]
    x[mask] = -1
    assert x.tolist() == [-1, 1, -1, 3, -1]
    assert rl.ones(2, 3)[rl.tensor(0, dtype=rl.uint8)].shape == (0, 2, 3)
    assert rl.tensor(3.0)[rl.tensor(1, dtype=rl.uint8)].tolist() == [3]
    with refused("I003"):
        x[rl.zeros(0, 2, dtype=rl.uint8)]


def test_values_may_have_leading_dims_of_one_more_than_their_places():
    x = rl.zeros(4, 4)
    x[range(4), range(4)] = rl.arange(4.0).reshape(1, 1, 4)
    assert x.diagonal().tolist() == [0, 1, 2, 3]
    y = rl.zeros(2, 3)
    y[True] = rl.ones(1, 1, 2, 3)
    assert y.tolist() == [[1, 1, 1], [1, 1, 1]]
    with refused("S009"):
        x[[0, 1]] = rl.ones(2, 2, 4)


def test_writes_without_indices_accumulate():
    assert rl.tensor(2.0).index_put((), rl.tensor(3.0), accumulate=True).item() == 5
    with refused("S009"):
        rl.tensor(2.0).index_put((), rl.tensor([3.0]), accumulate=True)


def test_elements_are_not_deleted():
    x = rl.ones(3)
    with refused("A001"):
        del x[0]
