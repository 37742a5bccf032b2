"""save and load: everything comes back, nothing is lost when the disk fails, other programs can read the files."""

import io
import json
import math
import os
import resource
import stat
from collections import OrderedDict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import rushlight as rl
from rushlight import nn, optim
from rushlight.ir.dtype import DTYPES


def test_state_dicts_of_model_and_optimizer_come_back(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    model(rl.ones(5, 3)).sum().backward()
    optimizer.step()
    path = tmp_path / "run.safetensors"
    rl.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 7, "best": math.inf}, path)
    found = rl.load(path)
    assert found["step"] == 7 and found["best"] == math.inf and type(found["model"]) is OrderedDict
    for key, tensor in model.state_dict().items():
        assert found["model"][key].dtype is tensor.dtype
        np.testing.assert_array_equal(found["model"][key].numpy(), tensor.numpy())
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    other.load_state_dict(found["model"])
    again = optim.AdamW(other.parameters())
    again.load_state_dict(found["optimizer"])
    assert again.state[other[0].weight]["step"] == 1 and again.param_groups[0]["lr"] == 0.1
    assert again.param_groups[0]["betas"] == (0.9, 0.999)


@pytest.mark.parametrize("file", ["t.pt", "t.safetensors"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_every_dtype_and_layout_comes_back(dtype, file, tmp_path):
    if dtype is rl.complex128 and file == "t.safetensors":
        return
    base = rl.from_numpy(np.arange(6).reshape(2, 3).astype(dtype.numpy))
    tensors = {"whole": base, "turned": base.mT, "part": base[:, 1:], "scalar": base[1, 2], "empty": base[:0]}
    rl.save(tensors, tmp_path / file)
    found = rl.load(tmp_path / file)
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype is dtype and found[name].shape == tensor.shape
        np.testing.assert_array_equal(found[name].numpy(), tensor.numpy())
        assert found[name].numpy().flags.writeable


@pytest.mark.parametrize("file", ["o.pt", "o.safetensors"])
def test_containers_keys_and_numbers_come_back(file, tmp_path):
    obj = {
        "list": [1, 2.5, None, True, "text", "\N{SNOWMAN}"],
        "tuple": (1, (2, [3])),
        3: {"nested": {}},
        (1, "a"): -0.0,
        "special": [float("nan"), -math.inf, 10**30],
        "size": rl.Size([2, 3]),
        "dtype": rl.bfloat16,
        "device": rl.device("cpu"),
        "numpy": np.float32(0.5),
        "set": {1, 2},
    }
    rl.save(obj, tmp_path / file)
    found = rl.load(tmp_path / file)
    assert repr(found.pop("special")) == repr(obj.pop("special"))
    assert found == obj
    assert type(found["tuple"]) is tuple and type(found["size"]) is rl.Size and math.copysign(1, found[1, "a"]) == -1
    for single in (None, 3, "x", [rl.ones(1)]):
        rl.save(single, tmp_path / file)
        loaded = rl.load(tmp_path / file)
        assert loaded == single if not isinstance(single, list) else loaded[0].item() == 1


def test_shared_tensors_stay_shared_and_are_stored_once(tmp_path):
    weight = rl.ones(1000)
    rl.save({"head": weight, "embedding": weight.detach(), "half": weight[:500]}, tmp_path / "s")
    found = rl.load(tmp_path / "s")
    assert found["head"].data_ptr() == found["embedding"].data_ptr() == found["half"].data_ptr()
    assert os.path.getsize(tmp_path / "s") < 1500 * 4 + 1500


def test_equal_objects_make_equal_files(tmp_path):
    for name in "ab":
        rl.save({"x": rl.arange(5), "n": 1, "y": [rl.ones(2, dtype=rl.bfloat16)]}, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_requires_grad_comes_back(tmp_path):
    rl.save([nn.Parameter(rl.ones(2)), rl.ones(2)], tmp_path / "g")
    found = rl.load(tmp_path / "g")
    assert found[0].requires_grad and not found[1].requires_grad


def test_other_programs_can_read_our_files_and_we_theirs(tmp_path):
    rl.save(
        {"layer.weight": rl.arange(4).float(), "bias": rl.ones(2, dtype=rl.bfloat16)}, tmp_path / "ours.safetensors"
    )
    arrays = load_file(tmp_path / "ours.safetensors")
    np.testing.assert_array_equal(arrays["layer.weight"], np.arange(4, dtype=np.float32))
    assert arrays["bias"].dtype == ml_dtypes.bfloat16
    theirs = {"w": np.ones((2, 2), np.float16), "b": np.full(3, 1.5, ml_dtypes.bfloat16)}
    save_file(theirs, tmp_path / "theirs", metadata={"format": "pt"})
    found = rl.load(tmp_path / "theirs")
    assert found["b"].dtype is rl.bfloat16 and found["b"].float().tolist() == [1.5] * 3
    assert found["w"].tolist() == [[1, 1], [1, 1]]


def test_file_objects_and_map_location(tmp_path):
    buffer = io.BytesIO()
    rl.save({"x": rl.ones(3), "n": 2}, buffer)
    buffer.seek(0)
    assert rl.load(buffer)["x"].tolist() == [1, 1, 1]
    rl.save(rl.ones(3), tmp_path / "m")
    assert rl.load(tmp_path / "m", map_location="meta").is_meta
    assert rl.load(tmp_path / "m", map_location={"cpu": "meta"}).is_meta
    assert rl.load(tmp_path / "m", map_location=lambda tensor, place: tensor + 1).tolist() == [2, 2, 2]
    assert rl.load(str(tmp_path / "m"), map_location=rl.device("cpu")).tolist() == [1, 1, 1]


def test_new_files_have_the_users_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        rl.save(rl.ones(1), tmp_path / "p")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "p").st_mode) == 0o640


def test_links_are_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    rl.save(rl.ones(1), tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and rl.load(tmp_path / "real" / "file").item() == 1


def limited_save(obj, path, limit):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
    try:
        rl.save(obj, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "c"
    rl.save({"x": rl.ones(3)}, path)
    before = path.read_bytes()
    with pytest.raises(OSError, match="could not be written") as caught:
        limited_save({"x": rl.zeros(100_000)}, path, 4096)
    assert isinstance(caught.value, rl.CheckpointFileError) and caught.value.code == "P003"
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["c"]


def test_a_device_is_written_to_and_never_replaced(tmp_path):
    device = Path("/dev/full")
    if not device.is_char_device():
        pytest.fail("/dev/full is not a device here")
    with pytest.raises(rl.CheckpointFileError, match="No space left"):
        rl.save({"x": rl.ones(3)}, device)
    assert device.is_char_device() and os.stat(device).st_rdev == os.makedev(1, 7)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(rl.CheckpointFileError, match="No such file or directory"):
        rl.save(rl.ones(1), tmp_path / "none" / "x")


@pytest.mark.parametrize("kept", [0, 5, 40, 200, -1])
def test_a_truncated_file_is_one_clear_error(kept, tmp_path):
    rl.save({"x": rl.ones(100)}, tmp_path / "t")
    data = (tmp_path / "t").read_bytes()
    (tmp_path / "t").write_bytes(data[:kept])
    with pytest.raises(rl.CheckpointError, match="truncated or damaged") as caught:
        rl.load(tmp_path / "t")
    assert caught.value.code == "P002"


@pytest.mark.parametrize(
    "start",
    [
        b"PK\x05\x06" + bytes(18),
        b"\x80\x02ctorch\nload\n",
        b"\x89PNG\r\n\x1a\n" + bytes(20),
        b"text, not tensors at all",
    ],
)
def test_a_foreign_file_is_one_clear_error(start, tmp_path):
    (tmp_path / "f").write_bytes(start)
    with pytest.raises(rl.CheckpointError) as caught:
        rl.load(tmp_path / "f")
    assert caught.value.code == "P005"


def test_damaged_structure_is_one_clear_error(tmp_path):
    for structure in ("{", json.dumps({"surprise": 1}), json.dumps({"tensor": "gone"}), json.dumps({"dict": 3})):
        save_file({"x": np.ones(1)}, tmp_path / "d", metadata={"rushlight": structure})
        with pytest.raises(rl.CheckpointError) as caught:
            rl.load(tmp_path / "d")
        assert caught.value.code == "P002"


def test_missing_files_and_folders():
    for path in ("/nowhere/at/all", "/tmp"):
        with pytest.raises(OSError) as caught:
            rl.load(path)
        assert caught.value.code == "P001"


def test_what_cannot_be_saved_is_named(tmp_path):
    loop = []
    loop.append(loop)
    for obj, text in (
        ({"model": nn.Linear(1, 1)}, "Linear at model"),
        ([print], "builtin_function_or_method at 0"),
        ({frozenset(): 1}, "key of type frozenset"),
        (loop, "contain themselves"),
        (rl.from_numpy(np.zeros(1, np.complex128)), "complex128"),
    ):
        with pytest.raises(rl.CheckpointError) as caught:
            rl.save(obj, tmp_path / "x.safetensors")
        assert caught.value.code == "P006" and text in str(caught.value)
    assert not os.listdir(tmp_path)


def test_what_was_written_to_an_open_file_can_be_read_by_its_name(tmp_path):
    with (tmp_path / "x.pt").open("wb") as file:
        rl.save({"x": rl.ones(3)}, file)
        assert rl.load(tmp_path / "x.pt")["x"].tolist() == [1.0] * 3
