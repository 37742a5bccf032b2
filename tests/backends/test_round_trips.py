"""Copies between devices and through files: dtypes, strides, offsets and what shares memory stay what they were."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.backends.round_trips import lost

import rushlight as rl

pytestmark = pytest.mark.usefixtures("devices")


@pytest.mark.row("1.8")
@pytest.mark.filterwarnings("ignore::rushlight.DeviceWarning")
def test_random_round_trips_lose_nothing(quick_code: None):
    found = lost(8, 400)
    assert not found, "\n".join(found)


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
