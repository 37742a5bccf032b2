"""Errors of tensors that are divided among ranks."""

import rushlight as rl
from errorcases import triggers
from rushlight import distributed as dist
from rushlight.distributed.tensor import (
    DTensor,
    Shard,
    distribute_tensor,
    even_local_shape,
    explicit_redistribution,
    init_device_mesh,
    local_map,
)


def on_ranks(function):
    dist.spawn(lambda: function(init_device_mesh("cpu", (2,))), 2)


@triggers("W020")
def plain_and_divided():
    on_ranks(lambda mesh: distribute_tensor(rl.ones(4), mesh, [Shard(0)]) + rl.ones(4))


@triggers("W021")
def two_meshes():
    def add(mesh):
        other = init_device_mesh("cpu", (2, 1))
        one, two = distribute_tensor(rl.ones(4), mesh, [Shard(0)]), distribute_tensor(rl.ones(4), other)
        return one + two

    on_ranks(add)


@triggers("W022")
def implicit_communication():
    def product(mesh):
        x, y = (distribute_tensor(rl.ones(4, 4), mesh, [Shard(dim)]) for dim in (0, 1))
        with explicit_redistribution():
            return x @ y

    on_ranks(product)


@triggers("W023")
def no_rule():
    def flip(mesh):
        with rl.strict():
            distribute_tensor(rl.ones(4), mesh, [Shard(0)]).flip(0)

    on_ranks(flip)


@triggers("W024")
def sizes_that_do_not_divide():
    on_ranks(lambda mesh: even_local_shape((4, 5), mesh, [Shard(1)]))


@triggers("W025")
def parts_that_do_not_fit():
    on_ranks(lambda mesh: DTensor.from_local(rl.ones(2), mesh, [Shard(0)], shape=(5,)))


@triggers("W026")
def write_to_a_copy():
    def write(mesh):
        distribute_tensor(rl.ones(4), mesh, [Shard(0)])[1:].fill_(0)

    on_ranks(write)


@triggers("W027")
def placements_for_two_inputs():
    mapped = local_map(lambda x: x, [Shard(0)], ([Shard(0)], [Shard(0)]))
    on_ranks(lambda mesh: mapped(distribute_tensor(rl.ones(4), mesh, [Shard(0)])))
