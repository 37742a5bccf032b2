"""PyTorch's checkpoints: what it wrote is read, what is written it reads, and nothing in them is ever executed."""

import argparse
import collections
import io
import os
import pickle
import pickletools
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.data import archive
from rushlight.ir.dtype import BY_NAME, DTYPES

GOLDEN = Path(__file__).parent / "golden"

# What torch.load(weights_only=True) of PyTorch 2.13 knows, of what is written here.
OPCODES = (
    *("PROTO", "GLOBAL", "NEWOBJ", "REDUCE", "BUILD", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "MARK", "STOP"),
    *("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET", "BINPERSID"),
    *("NONE", "NEWFALSE", "NEWTRUE", "BININT", "BININT1", "BININT2", "BINFLOAT", "BINUNICODE", "SHORT_BINSTRING"),
    *("LONG1", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT"),
)
STORAGES = ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "ComplexFloat")
GLOBALS = {
    "collections OrderedDict",
    "collections Counter",
    "_codecs encode",
    "__builtin__ set",
    "__builtin__ complex",
    "torch Size",
    "torch device",
    "torch Tensor",
    "torch.storage UntypedStorage",
    *(f"torch._utils _rebuild_{name}" for name in ("tensor_v2", "tensor_v3", "meta_tensor_no_storage")),
    *(f"torch._utils _rebuild_{name}" for name in ("parameter", "parameter_with_state")),
    "torch._tensor _rebuild_from_type_v2",
    *(f"torch {name}" for name in BY_NAME),
    *(f"torch {name}Storage" for name in (*STORAGES, "ComplexDouble")),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", ["torch-2.13.pt", "torch-legacy.pt"])
def test_what_torch_wrote_is_read(name, mmap):
    found = rl.load(GOLDEN / name, mmap=mmap)
    assert len(found["dtypes"]) == (15 if name == "torch-2.13.pt" else 12)
    expected = np.arange(6).reshape(2, 3)
    for kind, (whole, turned, part, scalar, empty) in found["dtypes"].items():
        assert whole.dtype is turned.dtype is empty.dtype is BY_NAME[kind]
        values = expected != 0 if kind == "bool" else expected
        for tensor, wanted in ((whole, values), (turned, values.T), (part, values[1:, 1:]), (scalar, values[0, 2])):
            np.testing.assert_array_equal(tensor.tolist(), wanted)
        assert empty.shape == (0, 3) and turned.stride() == (1, 3)
        whole[0, 2] = 0
        assert scalar.item() == 0 and turned[2, 0].item() == 0
    values = [1, -5, 70000, 10**30, 2.5, None, True, "x", b"\xff\x00", 1 + 2j, (1, (2,))]
    assert found["values"] == values and found["counts"] == collections.Counter("aab")
    assert found["dtype"] is rl.bfloat16 and found["device"] == rl.device("cpu") and found["size"] == rl.Size([1, 2])
    assert type(found["parameter"]) is nn.Parameter and found["parameter"].tag == "kept"
    assert found["conj"].tolist() == [1 - 2j] and found["expanded"].stride() == (0, 1)
    assert name == "torch-legacy.pt" or found["meta"].is_meta
    model = nn.Linear(2, 1)
    optimizer = optim.Adam(model.parameters())
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    assert model(rl.ones(1, 2)).item() == 6 and optimizer.param_groups[0]["lr"] == 0.5
    assert optimizer.state[model.weight]["exp_avg"].tolist() == [[pytest.approx(0.1), pytest.approx(0.1)]]


def everything():
    base = rl.arange(6.0).reshape(2, 3)
    tagged, plain = nn.Parameter(rl.ones(2)), rl.ones(2)
    tagged.tag, plain.tag = "a", [1]
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    twice = [1]
    return {
        "dtypes": {dtype.name: rl.arange(6).reshape(2, 3).to(dtype).t() for dtype in DTYPES},
        "views": [base, base.t(), base[:, 1:], base.view(rl.int32)[1:], base[:0], rl.ones(1).expand(4)],
        "meta": rl.ones(2, device="meta"),
        "tensors": [tagged, plain, nn.Parameter(rl.ones(1)), rl.ones(3, requires_grad=True)],
        "model": model.state_dict(),
        "optimizer": optim.AdamW(model.parameters()).state_dict(),
        "values": [1, -5, 70000, 10**30, 2.5, None, True, "x", b"\xff", 1 + 2j, {1}, (), rl.Size([2]), rl.bfloat16],
        "counts": collections.Counter("aab"),
        "twice": [twice, twice],
        "many": [f"text {number}" for number in range(300)],
    }


def test_what_is_written_uses_only_what_torch_allows(tmp_path):
    rl.save(everything(), tmp_path / "ours.pt")
    with zipfile.ZipFile(tmp_path / "ours.pt") as file:
        assert file.testzip() is None
        assert file.read("archive/version") == b"3\n" and file.read("archive/byteorder") == b"little"
        pickled = file.read("archive/data.pkl")
        for entry in file.infolist():
            head = (tmp_path / "ours.pt").read_bytes()[entry.header_offset : entry.header_offset + 30]
            name, extra = struct.unpack("<2H", head[26:])
            assert (entry.header_offset + 30 + name + extra) % 64 == 0 and entry.compress_type == zipfile.ZIP_STORED
    used = list(pickletools.genops(pickled))
    assert {opcode.name for opcode, _, _ in used} <= set(OPCODES)
    assert {arg for opcode, arg, _ in used if opcode.name == "GLOBAL"} <= GLOBALS


@pytest.mark.peer
def test_torch_reads_what_is_written(tmp_path):
    torch = pytest.importorskip("torch")
    rl.save(everything(), tmp_path / "ours.pt")
    for mmap in (False, True):
        found = torch.load(tmp_path / "ours.pt", weights_only=True, mmap=mmap)
        for name, tensor in found["dtypes"].items():
            assert tensor.dtype is getattr(torch, name) and tensor.stride() == (1, 3)
        assert found["views"][3].dtype is torch.int32 and found["tensors"][0].tag == "a"


def test_what_is_written_comes_back(tmp_path):
    rl.save(everything(), tmp_path / "ours.pt")
    for mmap in (False, True):
        found = rl.load(tmp_path / "ours.pt", mmap=mmap)
        for name, tensor in found["dtypes"].items():
            assert tensor.dtype is BY_NAME[name] and tensor.stride() == (1, 3) and tensor[1, 0].item() == 1
        base, turned, part, whole, empty, expanded = found["views"]
        base[1, 1] = -2.0
        assert (
            turned[1, 1].item() == part[1, 0].item() == -2
            and whole[0, 1].item() == struct.unpack("<i", struct.pack("<f", -2.0))[0]
        )
        assert empty.shape == (0, 3) and expanded.stride() == (0,)
        tagged, plain, parameter, leaf = found["tensors"]
        assert tagged.tag == "a" and plain.tag == [1] and type(plain) is rl.Tensor
        assert parameter.requires_grad and leaf.requires_grad and leaf.is_leaf
        assert found["twice"][0] is found["twice"][1] and found["many"] == everything()["many"]
    assert rl.load(tmp_path / "ours.pt")["views"][0][1, 1].item() == 4  # mapped pages are copied when written to


def test_a_part_of_a_tensor_takes_the_bytes_that_it_reaches(tmp_path):
    rl.save(rl.ones(100_000)[500:600], tmp_path / "part.pt")
    assert os.path.getsize(tmp_path / "part.pt") < 2500
    assert rl.load(tmp_path / "part.pt").sum().item() == 100


class Code:
    """An object whose pickle calls a function."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


def archived(pickled, **entries):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        for name, data in {"data.pkl": pickled, "version": b"3\n", "byteorder": b"little", **entries}.items():
            target.writestr(f"archive/{name}", data)
    return io.BytesIO(file.getvalue())


def refused(code, file, text="", **options):
    with pytest.raises(rl.RushlightError) as caught:
        rl.load(file, **options)
    assert caught.value.code == code and text in str(caught.value), caught.value


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("everything", [False, True])
def test_pickles_that_call_functions_call_nothing(tmp_path, protocol, everything):
    mark = tmp_path / "executed"
    for evil in (
        Code(os.system, f"touch {mark}"),
        Code(eval, f"open({str(mark)!r}, 'w')"),
        Code(exec, f"open({str(mark)!r}, 'w')"),
        Code(open, str(mark), "w"),
        Code(getattr, "text", "join"),
        Code(pickle.loads, pickle.dumps(1)),
        Code(nn.Linear, 1, 1),
        *([] if everything else [nn.Linear]),
    ):
        refused("P009", archived(pickle.dumps({"x": evil}, protocol)), weights_only=not everything)
    assert not mark.exists()


EVIL = {
    "a number of bytes": (b"c__builtin__\nbytearray\n(J\xff\xff\xff\x7ftR.", "P002"),
    "text too long": (b"X\xff\xff\xff\x7fabc.", "P002"),
    "a key of many parts": (b"}(" + b")" + b"\x85" * 5000 + b"K\x01u.", "P002"),
    "a key that doubles": (b"}()" + b"q\x00h\x00\x86" * 60 + b"K\x01u.", "P002"),
    "no end": (b"]", "P002"),
    "empty stack": (b".", "P002"),
    "unknown opcode": (b"\xff.", "P002"),
    "extension": (b"\x82\x01.", "P002"),
    "a module": (b"(X\x06\x00\x00\x00moduleK\x01tQ.", "P009"),
    "shadowed method": (b"ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsK\x01sb.", "P002"),
    "state of a tensor": (b"ctorch\nTensor\n}b.", "P009"),
    "sparse": (b"ctorch._utils\n_rebuild_sparse_tensor\n)R.", "A006"),
    "quantised": (b"ctorch\nQInt8Storage\n.", "A006"),
    "float8": (b"ctorch\nfloat8_e8m0fnu\n.", "A006"),
    "a hidden call": (b"ccollections\nOrderedDict\n(cos\nsystem\nX\x02\x00\x00\x00lstR.", "P009"),
    "numpy object": (b"cnumpy\ndtype\n(X\x02\x00\x00\x00O8tR.", "P002"),
    "numpy scalar": (
        b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(X\x02\x00\x00\x00f8tRc_codecs\nencode\n"
        b"(X\x01\x00\x00\x00aX\x06\x00\x00\x00latin1tRtR.",
        "P002",
    ),
}


@pytest.mark.parametrize("name", EVIL)
def test_damaged_and_malicious_pickles_are_one_clear_error(name):
    pickled, code = EVIL[name]
    refused(code, archived(b"\x80\x02" + pickled), "archive/data.pkl" if code == "P002" else "")


def tensor_pickle(kind=b"Float", count=4, offset=0, size=b"K\x02\x85", stride=b"K\x01\x85", key=b"0", device=b"cpu"):
    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value

    def number(value):
        return b"J" + struct.pack("<i", value)

    storage = b"(" + text(b"storage") + b"ctorch\n" + kind + b"Storage\n" + text(key) + text(device) + number(count)
    parts = (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(", storage, b"tQ", number(offset), size, stride, b"\x89}tR.")
    return b"".join(parts)


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ({}, None, ""),
        ({"offset": 2}, None, ""),
        ({"offset": 3}, "P002", "archive/data.pkl"),
        ({"offset": -1}, "P002", "archive/data.pkl"),
        ({"size": b"K\x05\x85"}, "P002", "archive/data.pkl"),
        ({"stride": b"J\xff\xff\xff\xff\x85"}, "P002", "archive/data.pkl"),
        ({"size": b"J\xff\xff\xff\x7f\x85", "stride": b"K\x00\x85"}, None, ""),
        ({"size": b"J\xff\xff\xff\x7f\x85"}, "P002", "archive/data.pkl"),
        ({"count": 5}, "P002", "archive/data/0"),
        ({"count": 2**31 - 1}, "P002", "archive/data/0"),
        ({"count": -1}, "P002", "archive/data.pkl"),
        ({"key": b"../../etc/passwd"}, "P002", "archive/data/../../etc/passwd"),
        ({"kind": b"Nothing"}, "P009", "torch.NothingStorage"),
        ({"device": b"cuda:0"}, "V001", "map_location='cpu'"),
    ],
)
def test_tensors_stay_within_their_storages(given, code, text):
    file = archived(tensor_pickle(**given), **{"data/0": bytes(16)})
    if code is None:
        assert rl.load(file).dtype is rl.float32
    else:
        refused(code, file, text)


def test_gpu_tensors_move_by_map_location():
    data = np.arange(4, dtype=np.float32).tobytes()

    def file():
        return archived(tensor_pickle(device=b"cuda:0"), **{"data/0": data})

    asked = []
    for place in ("cpu", {"cuda:0": "cpu"}, lambda storage, name: asked.append(name), lambda storage, name: storage):
        if callable(place) and not asked:
            refused("V001", file(), map_location=place)
        else:
            assert rl.load(file(), map_location=place).tolist() == [0, 1]
    assert asked == ["cuda:0"] and rl.load(file(), map_location="meta").is_meta


def test_archives_of_other_kinds_are_refused_by_name(tmp_path):
    refused("P005", archived(b"N.", **{"constants.pkl": b"N."}), "TorchScript")
    refused("A006", archived(tensor_pickle(), byteorder=b"big"), "archive/byteorder")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("archive/data.pkl", tensor_pickle())
        target.writestr("archive/data/0", bytes(4000))
    refused("P005", io.BytesIO(packed.getvalue()), "archive/data/0")
    refused("P009", GOLDEN / "module.pt", "state_dict")
    refused("A006", GOLDEN / "module.pt", pickle_module=io)


def test_a_wrong_checksum_is_found_unless_the_file_is_mapped(tmp_path):
    path = tmp_path / "c.pt"
    rl.save(rl.ones(100), path)
    data = bytearray(path.read_bytes())
    data[data.index(struct.pack("<f", 1.0) * 100) + 7] ^= 0x40
    path.write_bytes(data)
    refused("P002", path, "archive/data/0")
    assert rl.load(path, mmap=True).sum().item() != 100


class Settings:
    def __init__(self, size):
        self.size = size


def test_classes_that_the_program_allows_are_made():
    pickled = pickle.dumps({"s": Settings(3)}, 2)
    name = f"{Settings.__module__}.Settings"
    assert rl.serialization.get_unsafe_globals_in_checkpoint(archived(pickled)) == [name]
    refused("P009", archived(pickled), name)
    with rl.serialization.safe_globals([Settings]):
        assert rl.load(archived(pickled))["s"].size == 3
        assert rl.serialization.get_unsafe_globals_in_checkpoint(archived(pickled)) == []
    rl.serialization.add_safe_globals([(Settings, name)])
    assert rl.load(archived(pickled))["s"].size == 3 and rl.serialization.get_safe_globals() == [Settings]
    rl.serialization.clear_safe_globals()
    refused("P009", archived(pickled), name)
    with pytest.raises(rl.ArgumentError):
        rl.serialization.add_safe_globals([os.system])


@pytest.mark.parametrize("protocol", range(6))
def test_plain_classes_are_known_where_weights_only_is_false(protocol):
    value = {
        "args": argparse.Namespace(lr=0.1, sizes=[1, 2]),
        "default": collections.defaultdict(list, {1: [2]}),
        "deque": collections.deque([1, 2]),
        "path": Path("/tmp/x"),
        "slice": slice(1, None, 2),
        "frozen": frozenset([1]),
        "bytes": bytearray(b"ab"),
    }
    refused("P009", archived(pickle.dumps(value, protocol)), "weights_only=False")
    found = rl.load(archived(pickle.dumps(value, protocol)), weights_only=False)
    assert str(found.pop("path")) == str(value.pop("path")) and found == value


@pytest.mark.parametrize("protocol", range(2, 6))
def test_numpy_numbers_and_arrays_come_back(protocol):
    array = np.arange(6.0).reshape(2, 3)
    value = {"f": np.float64(0.5), "i": np.int32(3), "a": array, "t": array.T}
    found = rl.load(archived(pickle.dumps(value, protocol)))
    assert found["f"] == 0.5 and type(found["i"]) is np.int32
    for name in "at":
        np.testing.assert_array_equal(found[name], value[name])


def test_large_archives_have_wide_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_FULL", 300)
    rl.save({"x": rl.arange(200.0), "y": rl.ones(3)}, tmp_path / "w.pt")
    data = (tmp_path / "w.pt").read_bytes()
    assert b"PK\x06\x06" in data and rl.load(tmp_path / "w.pt")["x"][199].item() == 199
    with zipfile.ZipFile(tmp_path / "w.pt") as file:
        assert b"PK\x06\x07" in data and len(file.namelist()) == 7
