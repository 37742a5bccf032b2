"""The parts of tensors that ranks hold, against `numpy` and the rule of `torch.chunk`."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.distributed import spawn
from rushlight.distributed.tensor import even_local_shape, init_device_mesh, is_evenly_sharded
from rushlight.distributed.tensor.layout import box_of, is_even, part, shape_of, within
from rushlight.ir.placement import Partial, Replicate, Shard
from rushlight.support.errors import DistError

MESHES = [(1,), (2,), (3,), (4,), (2, 2), (2, 3), (2, 2, 2)]


def chunked(array, count, dim):
    """The parts of `torch.chunk`, and empty ones for the ranks that get none."""
    step = -(-array.shape[dim] // count)
    cuts = [min(step * index, array.shape[dim]) for index in range(1, count)]
    return np.split(array, cuts, dim)


@st.composite
def layouts(draw):
    mesh = draw(st.sampled_from(MESHES))
    shape = tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=3)))
    kinds = [Replicate(), Partial(), *[Shard(dim) for dim in range(len(shape))]]
    placements = tuple(draw(st.lists(st.sampled_from(kinds), min_size=len(mesh), max_size=len(mesh))))
    order = tuple(draw(st.permutations(range(len(mesh)))))
    return mesh, shape, placements, order


@settings(max_examples=150, deadline=None)
@given(layouts())
def test_boxes_are_what_cutting_an_array_axis_by_axis_gives(layout):
    mesh, shape, placements, order = layout
    array = np.arange(np.prod(shape)).reshape(shape)
    for coordinate in itertools.product(*map(range, mesh)):
        held = array
        for axis in order:
            if placements[axis].is_shard():
                held = chunked(held, mesh[axis], placements[axis].dim)[coordinate[axis]]
        box = box_of(shape, placements, mesh, coordinate, order)
        assert shape_of(box) == held.shape
        whole = tuple([(0, size) for size in shape])
        np.testing.assert_array_equal(array[within(box, whole)], held)


@pytest.mark.row("8.6")
@settings(max_examples=150, deadline=None)
@given(layouts())
def test_a_layout_is_even_where_all_boxes_have_one_shape(layout):
    mesh, shape, placements, order = layout
    shapes = {shape_of(box_of(shape, placements, mesh, at, order)) for at in itertools.product(*map(range, mesh))}
    even = len(shapes) == 1 and (0 not in shapes.pop() or 0 in shape)
    assert is_even(shape, placements, mesh) == even


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 7, 11, 12])
def test_parts_are_those_of_chunk(size, count):
    found = [part((0, size), count, index) for index in range(count)]
    assert [end - begin for begin, end in found] == [len(one) for one in chunked(np.arange(size), count, 0)]
    assert found[0][0] == 0
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))


@pytest.mark.row("8.6")
def test_even_parts_have_a_shape_and_others_an_error():
    def run():
        mesh = init_device_mesh("cpu", (2, 2))
        with pytest.raises(DistError, match="3 places of dim 0 on 2 ranks of axis 1") as caught:
            even_local_shape((6, 4), mesh, [Shard(0), Shard(0)])
        assert caught.value.code == "W024"
        assert not is_evenly_sharded((6, 4), mesh, [Shard(0), Shard(0)])
        assert is_evenly_sharded((8, 4), mesh, [Shard(0), Shard(1)])
        return even_local_shape((8, 4), mesh, [Shard(0), Shard(0)])

    assert spawn(run, 4) == [(2, 4)] * 4
