"""Tensors that share memory share it again after loading, and files that others left do no harm."""

import itertools
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import rushlight as rl
from rushlight.data.atomic_file import _host
from rushlight.support.errors import RushlightError
from rushlight.utils.data import RandomSampler, WeightedRandomSampler


def passed_through(obj, tmp_path, name="saved.pt"):
    path = tmp_path / name
    rl.save(obj, path)
    return rl.load(path)


VIEWS = {
    "row": lambda x: x[1],
    "column": lambda x: x[:, 1],
    "transposed": lambda x: x.t(),
    "step": lambda x: x[::2, 1:],
    "flat": lambda x: x.reshape(-1),
    "alias": lambda x: x.detach(),
}


FORMATS = pytest.mark.parametrize("file", ["saved.pt", "saved.safetensors"])


@FORMATS
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", VIEWS)
def test_a_tensor_and_its_view_share_memory_after_loading(tmp_path, name, first, file):
    x = rl.arange(12.0).reshape(4, 3)
    pair = {"x": x, "view": VIEWS[name](x)} if first else {"view": VIEWS[name](x), "x": x}
    found = passed_through(pair, tmp_path, file)
    assert found["view"].tolist() == pair["view"].tolist() and found["view"].stride() == pair["view"].stride()
    found["x"].fill_(7.0)
    assert set(found["view"].reshape(-1).tolist()) == {7.0}
    assert VIEWS[name](found["x"]).data_ptr() == found["view"].data_ptr()


@FORMATS
def test_the_same_tensor_stays_the_same_and_others_stay_apart(tmp_path, file):
    x, y = rl.ones(3), rl.ones(3)
    found = passed_through({"a": x, "b": x, "c": y, "d": [x]}, tmp_path, file)
    assert found["a"] is found["b"] is found["d"][0] and found["c"].data_ptr() != found["a"].data_ptr()


@FORMATS
def test_a_parameter_and_its_detached_self_share(tmp_path, file):
    weight = rl.nn.Parameter(rl.ones(2, 2))
    found = passed_through({"weight": weight, "plain": weight.detach(), "row": weight.detach()[0]}, tmp_path, file)
    assert found["weight"].requires_grad and not found["plain"].requires_grad and found["weight"].is_leaf
    assert found["weight"].data_ptr() == found["plain"].data_ptr() == found["row"].data_ptr()


@FORMATS
def test_parts_of_one_memory_that_do_not_hold_each_other_come_back(tmp_path, file):
    x = rl.arange(10.0)
    found = passed_through({"front": x[:6], "back": x[4:]}, tmp_path, file)
    assert found["front"].tolist() == x[:6].tolist() and found["back"].tolist() == x[4:].tolist()
    found["front"][5] = -1.0
    assert found["back"][1].item() == (-1.0 if file == "saved.pt" else 5.0)


@pytest.mark.parametrize("view", ["[0,[9],[1]]", "[-1,[2],[1]]", "[0,[2]]", "7", "[0,[2],[true]]", '["a",[1],[1]]'])
def test_a_view_that_does_not_fit_is_a_damaged_file(tmp_path, view):
    path = tmp_path / "saved.safetensors"
    x = rl.ones(4)
    rl.save({"x": x, "y": x[1:3]}, path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    head = data[8 : 8 + size].replace(b"[1,[2],[1]]", view.replace('"', '\\\\\\"').encode())
    path.write_bytes(len(head).to_bytes(8, "little") + head + data[8 + size :])
    with pytest.raises(RushlightError) as error:
        rl.load(path)
    assert error.value.code == "P002"


def test_what_a_killed_save_left_goes_with_the_next_save(tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    names = {
        "left": f".model.{_host()}-{int(dead.stdout)}-0123456789ab.tmp",
        "alive": f".model.{_host()}-{os.getpid()}-0123456789ab.tmp",
        "elsewhere": f".model.00000001-{int(dead.stdout)}-0123456789ab.tmp",
        "foreign": ".model.tmp",
    }
    for name in names.values():
        (tmp_path / name).write_bytes(b"part")
        os.utime(tmp_path / name, (time.time() - 3600,) * 2)
    rl.save({"x": rl.ones(2)}, tmp_path / "other")
    left = {entry.name for entry in tmp_path.iterdir()}
    assert left == {"other", *[names[name] for name in ("alive", "elsewhere", "foreign")]}


def test_loading_from_a_pipe_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RushlightError) as error:
        rl.load(tmp_path / "pipe")
    assert error.value.code == "P001"


def test_a_sampler_draws_as_it_is_asked():
    endless = RandomSampler(range(9), replacement=True, num_samples=10**10)
    first = list(itertools.islice(endless, 5))
    assert all(0 <= index < 9 for index in first) and len(endless) == 10**10
    weighted = WeightedRandomSampler([0.0, 1.0, 0.0], 10**10)
    assert list(itertools.islice(weighted, 4)) == [1, 1, 1, 1]


def test_draws_do_not_depend_on_how_many_are_asked_for():
    def drawn(count):
        generator = rl.Generator()
        generator.manual_seed(5)
        return list(RandomSampler(range(1000), replacement=True, num_samples=count, generator=generator))

    long = drawn(70_000)
    assert drawn(10) == long[:10] and len(long) == 70_000
    words = np.random.Philox(key=5).random_raw(70_000)
    assert long == (words % np.uint64(1000)).astype(np.int64).tolist()
