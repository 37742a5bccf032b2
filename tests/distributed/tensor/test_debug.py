"""CommDebugMode counts what PyTorch's counts, of divided layers and of calls by hand."""

import json

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import _functional_collectives as funcol
from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from rushlight.distributed.tensor.debug import CommDebugMode
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def test_collectives_of_divided_layers_are_counted():
    """One program whose counts PyTorch 2.13 gives as 1 all-reduce, 1 all-gather, 1 scatter and 1 by hand."""

    def run():
        mesh = init_device_mesh("cpu", (2,))
        model = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.ReLU(), rl.nn.Linear(4, 4))
        parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        comm = CommDebugMode()
        with comm:
            model(rl.ones(2, 4)).sum().backward()
        first = dict(comm.get_comm_counts()), comm.get_total_counts()
        with comm:
            dist.all_reduce(rl.ones(3))
            dist.barrier()
            distribute_tensor(rl.ones(4, 4), mesh, [Shard(0)]).redistribute(mesh, [Replicate()])
            funcol.reduce_scatter_tensor(rl.ones(4), "sum", 0)
        dist.all_reduce(rl.ones(3))
        return first, comm.get_comm_counts()["all_gather_into_tensor"], dict(comm.get_comm_counts()), repr(comm)

    for first, gathered, second, text in dist.spawn(run, 2):
        assert first == ({"all_reduce": 1}, 1) and gathered == 1
        assert second["all_reduce"] == second["reduce_scatter_tensor"] == 1 and "barrier" not in second
        assert text == f"CommDebugMode(get_total_counts()={sum(second.values())})"


def test_the_table_names_lines_and_scopes_nest(tmp_path):
    def run():
        with CommDebugMode() as outer:
            dist.all_reduce(rl.ones(3))
            with CommDebugMode() as inner:
                dist.broadcast(rl.ones(3), 0)
        if dist.get_rank() == 0:
            outer.log_comm_debug_tracing_table_to_file(tmp_path / "log.txt")
            outer.generate_json_dump(tmp_path / "log.json")
        return outer.get_total_counts(), inner.get_total_counts(), outer.generate_comm_debug_tracing_table(0)

    assert dist.spawn(run, 2) == [(2, 1, "all_reduce: 1\nbroadcast: 1")] * 2
    text = (tmp_path / "log.txt").read_text()
    assert "test_debug.py" in text and "dist.all_reduce(rl.ones(3))" in text
    found = json.loads((tmp_path / "log.json").read_text())
    assert found["counts"] == {"all_reduce": 1, "broadcast": 1} and len(found["lines"]) == 2


def test_a_scope_that_an_error_ends_counts_no_more():
    def run():
        comm = CommDebugMode()
        try:
            with comm:
                raise ValueError
        except ValueError:
            dist.all_reduce(rl.ones(3))
        return comm.get_total_counts()

    assert dist.spawn(run, 2) == [0, 0]
