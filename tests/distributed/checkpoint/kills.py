"""Saves that are killed at random points, and a disk that is full: `kills.py FOLDER COUNT` prints JSON."""

import json
import os
import random
import resource
import signal
import sys
import time

import rushlight as rl
from rushlight.distributed import checkpoint
from rushlight.support.errors import RushlightError

SIZES = [1 << 18, 1, 1 << 17, 0, 1 << 16]


def state(step: int) -> dict[str, object]:
    return {"tensors": [rl.full((size,), float(step)) for size in SIZES], "step": step}


def loaded(folder: str) -> int:
    """The step of the checkpoint, all of whose tensors are of it."""
    found = state(0)
    checkpoint.load(found, folder)
    step = found["step"]
    assert all(bool((one == float(step)).all()) for one in found["tensors"]), "tensors of two saves"
    return step


def save_for_ever(folder: str, step: int, told: int) -> None:
    while True:
        step += 1
        os.write(told, f"begin {step}\n".encode())
        checkpoint.save(state(step), folder)
        os.write(told, f"end {step}\n".encode())


def killed_once(folder: str, step: int, after: float) -> tuple[int, bool]:
    """Kill a process that saves, and return the step that can be loaded, and whether it was within a save."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        save_for_ever(folder, step, writes)
    os.close(writes)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reads, encoding="utf-8") as pipe:
        lines = [line.split() for line in pipe.read().splitlines()]
    ended = max([int(number) for what, number in lines if what == "end"], default=step)
    begun = max([int(number) for what, number in lines if what == "begin"], default=step)
    found = loaded(folder)
    assert found in (ended, begun), (found, ended, begun)
    return found, begun > ended


def full_disk(folder: str) -> str:
    """The code of the error of a save for which there is no room."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))
    try:
        checkpoint.save(state(-1), folder)
    except RushlightError as failure:
        return failure.code
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return "none"


def main(folder: str, count: int) -> None:
    rl.set_num_threads(1)
    draw = random.Random(0)
    checkpoint.save(state(1), folder)
    begun = time.monotonic()
    checkpoint.save(state(1), folder)
    longest = 8 * (time.monotonic() - begun)
    step, within = 1, 0
    for _ in range(count):
        step, torn = killed_once(folder, step, draw.random() * longest)
        within += torn
    code, after = full_disk(folder), loaded(folder)
    checkpoint.save(state(step + 1), folder)
    report = {"within": within, "full_disk": code, "kept": after == step, "next": loaded(folder) == step + 1}
    print(json.dumps({**report, "files": len(os.listdir(folder))}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
