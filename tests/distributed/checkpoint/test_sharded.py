"""Shards that ranks write, read again in other boxes by other ranks."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import rushlight as rl
from rushlight.distributed.checkpoint.folder import open_folder
from rushlight.distributed.checkpoint.holding import Holding, Part
from rushlight.distributed.checkpoint.index import read_index
from rushlight.distributed.checkpoint.writing import Writing, shares_of
from rushlight.distributed.tensor.layout import Box, box_at, count_of, shape_of, whole, within
from rushlight.eager.memory import array_of

DTYPES = [rl.float32, rl.bfloat16, rl.int64, rl.bool, rl.complex64, rl.float8_e4m3fn]


def _cuts(rng: np.random.Generator, size: int, count: int) -> list[tuple[int, int]]:
    """Ranges that make up a dim, some of them empty."""
    inner = sorted(rng.integers(0, size + 1, count - 1).tolist())
    ends = [0, *inner, size]
    return list(itertools.pairwise(ends))


def _boxes(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Box]:
    boxes: list[Box] = [()]
    for size in shape:
        ranges = _cuts(rng, size, int(rng.integers(1, 4)))
        boxes = [(*box, one) for box in boxes for one in ranges]
    return boxes


def _written(folder: str, tensors: dict[str, rl.Tensor], holders: dict[str, list[tuple[int, Box]]], ranks: int) -> None:
    held: list[dict[str, list[Holding]]] = [{} for _ in range(ranks)]
    for name, tensor in tensors.items():
        for rank, box in holders[name]:
            part = Part(name, tensor.dtype, tuple(tensor.shape), box)
            held[rank].setdefault(name, []).append(Holding(part, tensor[within(box, whole(part.shape))]))
    writing = Writing(
        folder, "0" * 12, shares_of([[one.part for parts in mine.values() for one in parts] for mine in held])
    )
    for rank, mine in enumerate(held):
        writing.write_shard(rank, mine)
    writing.commit(writing.index({}))


@pytest.mark.parametrize("seed", range(25))
def test_any_box_is_read_from_any_boxes(tmp_path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tensors, holders, ranks = {}, {}, 8
    for number, dtype in enumerate(DTYPES):
        shape = tuple(rng.integers(0, 7, rng.integers(0, 4)).tolist())
        tensors[str(number)] = rl.tensor(rng.normal(size=shape) * 50).to(dtype)
        boxes = _boxes(rng, shape)[:ranks]
        if sum([count_of(box) for box in boxes]) < tensors[str(number)].numel():
            boxes = [whole(shape)]
        replicas = int(rng.integers(1, 3)) if len(boxes) * 2 <= ranks else 1
        holders[str(number)] = [(place, box) for place, box in enumerate(boxes * replicas)]
    _written(str(tmp_path), tensors, holders, ranks)
    shards = open_folder(str(tmp_path))
    shards.open(tensors)
    for name, tensor in tensors.items():
        for box in _boxes(rng, tuple(tensor.shape)):
            sizes = shape_of(box)[::-1] if rng.integers(2) else shape_of(box)
            target = np.empty(sizes, tensor.dtype.numpy)
            target = target if sizes == shape_of(box) else target.T
            shards.read(name, box, target)
            assert target.tobytes() == array_of(tensor)[within(box, whole(tuple(tensor.shape)))].tobytes()


def test_replicas_are_written_once_and_the_work_is_shared(tmp_path) -> None:
    parts = [Part(f"{number}", rl.float32, (100 - number,), whole((100 - number,))) for number in range(20)]
    shares = shares_of([parts] * 4)
    assert sorted([part.name for share in shares for part in share]) == sorted([part.name for part in parts])
    loads = [sum([part.nbytes for part in share]) for share in shares]
    assert max(loads) - min(loads) <= max([part.nbytes for part in parts])


def test_boxes_that_do_not_make_up_a_tensor_are_refused() -> None:
    half = Part("w", rl.float32, (4,), box_at((0,), (2,)))
    with pytest.raises(rl.RushlightError) as found:
        shares_of([[half], [half]])
    assert found.value.code == "P006"
    with pytest.raises(rl.RushlightError) as found:
        shares_of([[half], [Part("w", rl.float64, (4,), box_at((2,), (2,)))]])
    assert found.value.code == "P006"


def test_shards_of_an_earlier_checkpoint_go_when_the_new_one_is_there(tmp_path) -> None:
    for serial, (mark, value) in enumerate((("a" * 12, 1.0), ("b" * 12, 2.0))):
        tensor = rl.full((3,), value)
        part = Part("w", rl.float32, (3,), whole((3,)))
        writing = Writing(str(tmp_path), mark, [[part]], serial)
        writing.write_shard(0, {"w": [Holding(part, tensor)]})
        writing.commit(writing.index({}))
    assert sorted(os.listdir(tmp_path)) == ["index.json", writing.file(0)]


def test_shards_of_a_later_save_stay_when_an_earlier_one_is_done(tmp_path) -> None:
    part = Part("w", rl.float32, (3,), whole((3,)))
    first, second = [Writing(str(tmp_path), mark * 12, [[part]], serial) for serial, mark in ((5, "a"), (6, "b"))]
    for writing, value in ((first, 1.0), (second, 2.0)):
        writing.write_shard(0, {"w": [Holding(part, rl.full((3,), value))]})
    first.commit(first.index({}))
    assert sorted(os.listdir(tmp_path)) == ["index.json", first.file(0), second.file(0)]
    second.commit(second.index({}))
    assert sorted(os.listdir(tmp_path)) == ["index.json", second.file(0)]
    first.write_shard(0, {"w": [Holding(part, rl.full((3,), 1.0))]})
    first.commit(first.index({}))
    assert sorted(os.listdir(tmp_path)) == ["index.json", second.file(0)] and read_index(str(tmp_path)).serial == 6
