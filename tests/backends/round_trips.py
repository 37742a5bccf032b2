"""Random tensors that share memory, copied between devices and through files: dtypes, strides, offsets and sharing.

`PYTHONPATH=tests/harness python -m tests.backends.round_trips --count 10000` makes so many trips, and prints those
that lose something.
"""

import argparse
import io
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np

import plugins
import rushlight as rl

PLACES = ("cpu", "mica", "flint")
DTYPES = (
    rl.bool,
    rl.uint8,
    rl.int8,
    rl.int16,
    rl.int32,
    rl.int64,
    rl.float16,
    rl.bfloat16,
    rl.float32,
    rl.float64,
    rl.complex64,
    rl.complex128,
    rl.float8_e4m3fn,
    rl.float8_e5m2,
)


def bits(tensor: rl.Tensor) -> bytes:
    """The elements, in logical order."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes()


def family(rng: np.random.Generator, place: str) -> list[rl.Tensor]:
    """Tensors on one memory, with random sizes, strides (0 among them), offsets, and perhaps no dims."""
    dtype = DTYPES[rng.integers(len(DTYPES))]
    count = int(rng.integers(1, 40))
    data = (
        rng.integers(0, 2, count * dtype.itemsize, dtype=np.uint8)
        if dtype is rl.bool
        else rng.bytes(count * dtype.itemsize)
    )
    data = np.frombuffer(bytes(data), np.uint8)
    storage = rl.UntypedStorage(data.size)
    for position, value in enumerate(data):
        storage[position] = int(value)
    storage = storage.to(device=place)
    members: list[rl.Tensor] = []
    for _ in range(int(rng.integers(1, 4))):
        offset = int(rng.integers(count))
        sizes: list[int] = []
        strides: list[int] = []
        room = count - 1 - offset
        for _ in range(int(rng.integers(0, 4))):
            stride = int(rng.integers(0, 5))
            size = int(rng.integers(0, min(5, room // stride + 1) + 1)) if stride else int(rng.integers(1, 4))
            room -= max(size - 1, 0) * stride
            sizes.append(size)
            strides.append(stride)
        tensor = rl.empty(0, dtype=dtype, device=place)
        tensor.set_(storage, offset, tuple(sizes), tuple(strides))
        members.append(tensor)
    return members


def described(members: list[rl.Tensor]) -> list[object]:
    """All but the device."""
    first = members[0].untyped_storage()
    return [(bits(one), one.dtype, tuple(one.shape), one.untyped_storage() == first) for one in members]


def layouts(members: list[rl.Tensor]) -> list[object]:
    base = min(one.storage_offset() for one in members)
    return [(one.stride(), one.storage_offset() - base) for one in members if one.numel()]


def trip(rng: np.random.Generator, number: int) -> None:
    """One family through a way that a draw chooses."""
    source, target = (PLACES[rng.integers(3)] for _ in range(2))
    members = family(rng, source)
    before, laid = described(members), layouts(members)
    way = rng.integers(4)
    if way == 0:  # the storage as it is, with all that shows it
        storage = members[0].untyped_storage().to(device=target)
        moved = [
            rl.empty(0, dtype=one.dtype, device=target).set_(storage, one.storage_offset(), one.shape, one.stride())
            for one in members
        ]
        assert described(moved) == before
        assert [(one.stride(), one.storage_offset()) for one in moved] == [
            (one.stride(), one.storage_offset()) for one in members
        ]
    elif way == 1:  # a file, loaded where it was and elsewhere
        file = io.BytesIO()
        rl.save(members, file)
        file.seek(0)
        loaded = rl.load(file, map_location=target if number % 2 else None)
        where = target if number % 2 else source
        assert {one.device.type for one in loaded} == {where}
        assert described(loaded) == before
        if all(one.numel() for one in members):
            assert layouts(loaded) == laid
    elif way == 2:  # one by one: dense copies in the order of dims
        for one, (content, *_) in zip(members, before, strict=True):
            there = one.to(target)
            back = there.to(source)
            assert bits(there) == content == bits(back)
            assert there.stride() == one.clone().stride() or there.device == one.device
    else:  # into a view with gaps, whose neighbours stay
        for one, (content, *_) in zip(members, before, strict=True):
            wide = rl.zeros(*[2 * size + 1 for size in one.shape], dtype=one.dtype, device=target)
            part = wide[tuple([slice(1, None, 2)] * len(one.shape))] if one.shape else wide
            part.copy_(one)
            assert bits(part) == content
            if one.shape:
                rest = wide.cpu().clone()
                rest[tuple([slice(1, None, 2)] * len(one.shape))] = 0
                assert not any(bits(rest))


def lost(seed: int, count: int) -> list[str]:
    """The trips of a seed in which something is lost, or that end in an error; each has draws of its own."""
    found: list[str] = []
    for number in range(count):
        try:
            trip(np.random.default_rng((seed, number)), number)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1].line
            found.append(f"seed {seed}, trip {number}: {type(error).__name__} {error}, in {where}")
    return found


def main() -> None:
    """Make as many trips as are wanted; exit with 1 if one loses something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=8)
    given = parser.parse_args()
    warnings.simplefilter("ignore", rl.DeviceWarning)
    devices = [plugins.EXAMPLES / name for name in PLACES[1:]]
    with tempfile.TemporaryDirectory() as folder, plugins.installed(Path(folder), *devices):
        found = lost(given.seed, given.count)
    print(f"{given.count} trips, {len(found)} lose something", *found[:10], sep="\n")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
