"""Copies between devices and through files: dtypes, strides, offsets and what shares memory stay what they were."""

import copy
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.usefixtures("devices")

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


@pytest.mark.row("1.8")
@pytest.mark.filterwarnings("ignore::rushlight.DeviceWarning")
def test_random_round_trips_lose_nothing(quick_code: None):
    rng = np.random.default_rng(8)
    for number in range(400):
        trip(rng, number)


@pytest.mark.row("1.8")
def test_a_checkpoint_says_where_tensors_were_and_loads_anywhere(tmp_path: Path):
    base = rl.arange(6.0, device="mica")
    rl.save({"w": base, "view": base[2:], "t": base.view(2, 3).t()}, tmp_path / "a.pt")
    loaded = rl.load(tmp_path / "a.pt")
    assert {one.device.type for one in loaded.values()} == {"mica"}
    loaded["view"].fill_(1)
    assert loaded["w"].tolist() == [0, 1, 1, 1, 1, 1]
    assert loaded["t"].tolist() == [[0, 1], [1, 1], [1, 1]]
    for place in ("cpu", "flint"):
        assert {one.device.type for one in rl.load(tmp_path / "a.pt", map_location=place).values()} == {place}
    assert rl.load(tmp_path / "a.pt", map_location={"mica:0": "cpu"})["w"].device.type == "cpu"
    meta = rl.load(tmp_path / "a.pt", map_location="meta")
    assert meta["w"].is_meta
    rl.save({"w": base}, tmp_path / "a.safetensors")
    assert rl.load(tmp_path / "a.safetensors", map_location="mica")["w"].device.type == "mica"


@pytest.mark.row("1.8")
def test_a_checkpoint_of_a_device_that_is_not_here_loads_on_the_cpu(tmp_path: Path):
    rl.save(rl.ones(3, device="mica"), tmp_path / "a.pt")
    rl.backends.unregister("mica")
    known = rl.runtime.backend.entry_points()
    saved = dict(known)
    known.pop("mica")
    try:
        with pytest.raises(rl.DeviceError, match="the device 'mica:0'") as caught:
            rl.load(tmp_path / "a.pt")
        assert caught.value.hint == "pass map_location='cpu'"
        assert rl.load(tmp_path / "a.pt", map_location="cpu").tolist() == [1, 1, 1]
    finally:
        known.update(saved)


@pytest.mark.row("1.8")
def test_tensors_that_were_pickled_as_arrays_load_with_one_notice():
    from rushlight.data.rebuilding import rebuild_from_cpu, rebuild_from_numpy
    from rushlight.support.errors import forget_warnings

    forget_warnings()
    array = np.arange(3.0, dtype=np.float32)
    with pytest.warns(FutureWarning) as given:
        first = rebuild_from_numpy(array, rl.float32, "mica:0", True)
    assert len(given) == 1
    assert first.device.type == "mica"
    assert first.requires_grad
    assert rebuild_from_numpy(array, rl.float32, "xpu:0", False).device.type == "cpu"  # and no second notice
    assert rebuild_from_cpu(rl.ones(2), rl.float64, "mica:0", False).device.type == "mica"


def test_pickles_and_deep_copies_stay_on_the_device():
    x = rl.arange(6.0, device="mica").view(2, 3).t()
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.device == x.device
        assert other.stride() == x.stride()
        assert other.tolist() == x.tolist()


def test_modules_move_with_what_their_parameters_share():
    layer = rl.nn.Linear(3, 3)
    tied = rl.nn.ModuleList([layer, rl.nn.Linear(3, 3)])
    tied[1].weight = layer.weight
    tied.to("mica")
    assert tied[1].weight is tied[0].weight
    assert {p.device.type for p in tied.parameters()} == {"mica"}
    state = {name: value.cpu() for name, value in tied.state_dict().items()}
    tied.load_state_dict(state)
    assert tied[0].weight.device.type == "mica"
