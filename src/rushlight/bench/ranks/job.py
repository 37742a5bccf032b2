"""One rank of a job that measures collectives when told to: `python job.py FRAMEWORK FOLDER`.

A turn is a file `turn-N` with the name of a case and the job whose turn it is; `turn-N.done` has the samples. This is a
script: a peer's interpreter need not have Rushlight.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_POLL = 0.002  # seconds; ranks that wait for their turn sleep
_LEAST, _MOST = 5, 100  # calls of a turn
TENSORS = 8  # of a checkpoint
SECONDS = 0.1  # that a turn's calls take, about


FRAMEWORKS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "rushlight": lambda: (importlib.import_module("rushlight"), importlib.import_module("rushlight.distributed")),
    "torch": lambda: (importlib.import_module("torch"), importlib.import_module("torch.distributed")),
}


def call_of(framework: Any, dist: Any, name: str, folder: Path) -> Callable[[], object]:
    """The call of a case such as `all_reduce/65536`, whose whole buffer has so many bytes of float32."""
    verb, _, nbytes = name.partition("/")
    ranks = dist.get_world_size()
    if verb in ("save", "load"):
        return checkpoint_of(framework, ranks, verb, int(nbytes), folder)
    if "-" in verb:
        return redistribution_of(framework, ranks, verb, int(nbytes))
    part = framework.ones(max(1, int(nbytes) // 4 // ranks))
    whole = framework.ones(part.shape[0] * ranks)
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
    }
    return calls[verb]


def divided_by(framework: Any, ranks: int) -> tuple[Any, Any]:
    """The module of divided tensors, and a mesh of all ranks."""
    meshes = importlib.import_module(f"{framework.__name__}.distributed.device_mesh")
    return importlib.import_module(f"{framework.__name__}.distributed.tensor"), meshes.init_device_mesh("cpu", (ranks,))


def square(ranks: int, nbytes: int) -> int:
    """The rows of a square of so many bytes of float32, which ranks divide evenly."""
    return max(ranks, int((nbytes // 4) ** 0.5) // ranks * ranks)


def redistribution_of(framework: Any, ranks: int, name: str, nbytes: int) -> Callable[[], object]:
    """The call of a case such as `S0-R`: a square tensor that lies as the one letter says comes to lie as the other."""
    tensor, mesh = divided_by(framework, ranks)
    placements = {"S0": tensor.Shard(0), "S1": tensor.Shard(1), "R": tensor.Replicate(), "P": tensor.Partial()}
    before, after = name.split("-")
    size = square(ranks, nbytes)
    local = framework.ones(size // ranks if before == "S0" else size, size)
    divided = tensor.DTensor.from_local(local, mesh, [placements[before]])
    return lambda: divided.redistribute(placements=[placements[after]])


def checkpoint_of(framework: Any, ranks: int, verb: str, nbytes: int, folder: Path) -> Callable[[], object]:
    """Saves or loads a state of square tensors that are divided by rows, in the folder of the job."""
    tensor, mesh = divided_by(framework, ranks)
    checkpoint = importlib.import_module(f"{framework.__name__}.distributed.checkpoint")
    size = square(ranks, nbytes // TENSORS)
    parts = [framework.ones(size // ranks, size) for _ in range(TENSORS)]
    state = {f"weight{at}": tensor.DTensor.from_local(one, mesh, [tensor.Shard(0)]) for at, one in enumerate(parts)}
    place = str(folder / f"checkpoint-{framework.__name__}")
    checkpoint.save(state, checkpoint_id=place)
    chosen = checkpoint.save if verb == "save" else checkpoint.load
    return lambda: chosen(state, checkpoint_id=place)


def take_turn(framework: Any, dist: Any, name: str, folder: Path) -> list[float]:
    """Seconds of the slowest rank, call by call. All ranks make as many calls."""
    call = call_of(framework, dist, name, folder)
    call()
    begun = time.perf_counter()
    call()
    count = framework.tensor([SECONDS / (time.perf_counter() - begun + 1e-9)])
    dist.broadcast(count, 0)
    seconds: list[float] = []
    for _ in range(max(_LEAST, min(_MOST, int(count.item())))):
        dist.barrier()
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    slowest = framework.tensor(seconds, dtype=framework.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.tolist()


def main(name: str, folder: Path) -> None:
    """Take turns until the folder has a file `end`."""
    framework, dist = FRAMEWORKS[name]()
    framework.set_num_threads(1)
    dist.init_process_group("gloo")
    (folder / f"{name}-{dist.get_rank()}.ready").touch()
    turn = 0
    while not (folder / "end").exists():
        told = folder / f"turn-{turn}"
        if not told.exists():
            time.sleep(_POLL)
            continue
        turn += 1
        who, case = told.read_text(encoding="utf-8").split()
        if who == name:
            samples = take_turn(framework, dist, case, folder)
            if dist.get_rank() == 0:
                draft = folder / "draft"
                draft.write_text(" ".join(map(repr, samples)), encoding="utf-8")
                draft.rename(folder / f"{told.name}.done")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
