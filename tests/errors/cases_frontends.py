"""Causes of the errors of modules, optimizers, loaders, checkpoints and missing names."""

import pickle
import resource
import sys
import time
import zipfile
from pathlib import Path

import pytest

import rushlight as rl
from errorcases import triggers
from rushlight import nn, optim
from rushlight.models import ModelFolder
from rushlight.models.tokens import Tokenizer
from rushlight.torch.targets import targets_of
from rushlight.utils.data import DataLoader, Dataset


@triggers("P001")
def checkpoint_is_missing(tmp_path: Path):
    rl.load(tmp_path / "none.safetensors")


@triggers("P002")
def checkpoint_is_truncated(tmp_path: Path):
    path = tmp_path / "cut.safetensors"
    rl.save({"weight": rl.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:-40])
    rl.load(path)


@triggers("P003")
def disk_is_full_while_saving(tmp_path: Path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        rl.save({"weight": rl.ones(10_000)}, tmp_path / "run.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@triggers("P003", "device")
def device_is_full():
    rl.save({"weight": rl.ones(3)}, "/dev/full")


@triggers("P004")
def state_dict_does_not_fit():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    state = {"0.weight": rl.zeros(3, 4), "0.bias": rl.zeros(3), "2.bias": rl.zeros(1)}
    model.load_state_dict(state)


@triggers("P005")
def checkpoint_is_a_pickle(tmp_path: Path):
    (tmp_path / "model.pt").write_bytes(pickle.dumps({"weight": [1.0]}))
    rl.load(tmp_path / "model.pt")


@triggers("P009")
def checkpoint_calls_a_function(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"cos\nsystem\n(X\x02\x00\x00\x00lstR.")
    rl.load(tmp_path / "model.pt")


@triggers("P006")
def module_is_saved_whole(tmp_path: Path):
    rl.save({"model": nn.Linear(2, 2)}, tmp_path / "run.safetensors")


@triggers("A007", "module")
def module_is_not_there():
    nn.ModuleDict({"encoder": nn.ReLU()})["decoder"]


@triggers("A008")
def parameter_is_listed_twice():
    weight = rl.zeros(2, requires_grad=True)
    optim.SGD([weight, weight], lr=0.1)


@triggers("A009")
def initialisation_by_an_old_name():
    nn.init.xavier_normal(rl.zeros(2, 2))


class Slow(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        time.sleep(0.5)
        return index


@triggers("R005")
def worker_is_too_slow():
    next(iter(DataLoader(Slow(), num_workers=1, timeout=0.02)))


@triggers("N001")
def name_is_only_torchs():
    _ = nn.quantizable


@triggers("N002")
def name_is_misspelt():
    nn.Conv2D(3, 4, 3)


@triggers("N003")
def library_is_for_torch():
    targets_of("torch.ops")[0].load_library("_C.so")


@triggers("P003", "kept")
def disk_is_full_and_the_last_checkpoint_stays(tmp_path: Path):
    path = tmp_path / "run.safetensors"
    rl.save({"weight": rl.ones(3)}, path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        rl.save({"weight": rl.ones(10_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert rl.load(path)["weight"].tolist() == [1.0, 1.0, 1.0]
        assert list(tmp_path.iterdir()) == [path]


@triggers("N001", "method")
def method_is_only_torchs():
    rl.ones(3, 3).q_scale()


@triggers("N002", "method")
def method_is_misspelt():
    rl.ones(3).shpae()


@triggers("N004")
def library_of_an_extra_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    Tokenizer(ModelFolder(tmp_path))


@triggers("A010")
def annotation_is_missing():
    rl.library.infer_schema(lambda x: x, mutates_args=())


@triggers("A011")
def custom_operator_is_unknown():
    rl.library.register_fake("boxes::unknown", lambda x: x)


@triggers("A012")
def custom_operator_returns_its_argument():
    @rl.library.custom_op("mine::same", mutates_args=())
    def same(x: rl.Tensor) -> rl.Tensor:
        return x

    try:
        same(rl.ones(2))
    finally:
        same.remove()
