"""Native packages: the bits of compiled code, without Python; error codes; bytes that do not change."""

import ctypes
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.llvm.interface.functions import emit_functions
from rushlight.codegen.llvm.interface.records import Variant
from rushlight.export import Dim, export, package
from rushlight.export.packaging.variants import PLATFORMS
from rushlight.runtime.elf import ElfObject

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "packages" / "rushlight-runtime" / "src"))

import rushlight_runtime  # noqa: E402

here = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="libraries are written for Linux alone")
CC = shutil.which("cc")


def scorer() -> rl.nn.Module:
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.GELU(), rl.nn.LayerNorm(16), rl.nn.Linear(16, 4))


def loaded(program: rl.export.ExportedProgram, folder: Path, **options: object) -> rushlight_runtime.Program:
    package(program, folder, shared=True, **options)
    return rushlight_runtime.load(folder)


@here
@pytest.mark.parametrize("embed", [False, True])
def test_a_package_gives_the_bits_of_compiled_code(tmp_path: Path, embed: bool):
    model = scorer()
    run = loaded(export(model, (rl.ones(3, 8),)), tmp_path, embed=embed)
    assert (tmp_path / "model.safetensors").exists() is not embed
    compiled = rl.compile(model)
    for rows in (0, 1, 2, 7, 64, 1000):
        x = rl.randn(rows, 8)
        np.testing.assert_array_equal(run(x.numpy()), compiled(x).detach().numpy())


@here
def test_threads_of_the_caller_change_no_bits(tmp_path: Path):
    def program(x, y):
        return (x @ y).softmax(1), x.sum(0)

    package(export(program, (rl.ones(3, 4), rl.ones(4, 5))), tmp_path, shared=True)
    one, four = (rushlight_runtime.load(tmp_path, threads=threads) for threads in (1, 4))
    x, y = rl.randn(700, 300), rl.randn(300, 500)
    for mine, other, wanted in zip(one(x.numpy(), y.numpy()), four(x.numpy(), y.numpy()), program(x, y), strict=True):
        np.testing.assert_array_equal(mine, other)
        np.testing.assert_array_equal(mine, wanted.numpy())


@here
def test_a_training_step_writes_its_state(tmp_path: Path):
    class Step(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            rl.manual_seed(1)
            self.register_buffer("weight", rl.randn(4, 2))
            self.register_buffer("steps", rl.zeros((), dtype=rl.int64))

        def forward(self, x, y, rate: float = 0.1):
            weight = self.weight
            error = x @ weight - y
            self.weight.sub_(rate * (x.mT @ error))
            self.steps.add_(1)
            return error.square().mean()

    spec = {"x": {0: Dim("rows")}, "y": {0: Dim("rows")}, "rate": Dim.AUTO}
    run = loaded(export(Step(), (rl.ones(3, 4), rl.ones(3, 2), 0.1), dynamic_shapes=spec), tmp_path)
    eager = Step()
    for rows, rate in ((3, 0.1), (5, 0.01), (1, 0.5)):
        x, y = rl.randn(rows, 4), rl.randn(rows, 2)
        np.testing.assert_array_equal(run(x.numpy(), y.numpy(), rate), eager(x, y, rate).numpy())
    np.testing.assert_array_equal(run.state["weight"], eager.weight.numpy())
    assert run.state["steps"] == 3


@here
def test_strides_dtypes_and_containers_of_results(tmp_path: Path):
    def program(x, n: int):
        return {"turned": x.T.contiguous().T * 2, "flags": (x > 0, n), "rows": x.shape[0], "fixed": "yes"}

    run = loaded(export(program, (rl.ones(2, 3, dtype=rl.float64), 3)), tmp_path)
    x = rl.randn(4, 3, dtype=rl.float64)
    result = run(x.numpy(), sizes={"s2": 5})
    wanted = program(x, 5)
    np.testing.assert_array_equal(result["turned"], wanted["turned"].numpy())
    np.testing.assert_array_equal(result["flags"][0], wanted["flags"][0].numpy())
    assert (result["flags"][1], result["rows"], result["fixed"]) == (5, 4, "yes")


@here
def test_an_index_out_of_range_is_a_check_and_no_read(tmp_path: Path):
    table = rl.nn.Embedding(10, 4)
    run = loaded(export(table, (rl.tensor([1, 2]),)), tmp_path)
    np.testing.assert_array_equal(run(np.array([3, 9])), table(rl.tensor([3, 9])).detach().numpy())
    for bad in (10, -1):
        with pytest.raises(rushlight_runtime.PackageError, match="out of range for a dim of size 10"):
            run(np.array([0, bad]))


@here
def test_what_does_not_fit_is_refused_by_a_status(tmp_path: Path):
    spec = {"input": {0: Dim("rows", min=2, max=8)}}
    package(export(scorer(), (rl.ones(4, 8),), dynamic_shapes=spec), tmp_path, shared=True)
    library = ctypes.CDLL(str(tmp_path / "libmodel.so"))
    library.model_arena_size.restype = ctypes.c_int64
    need = library.model_arena_size(ctypes.c_int64(1), ctypes.c_int64(8))
    assert need > 0
    assert [library.model_arena_size(ctypes.c_int64(1), ctypes.c_int64(rows)) for rows in (1, 9)] == [-3, -3]
    memory = np.zeros(need + 128, np.uint8)
    arena = memory.ctypes.data + -memory.ctypes.data % 64
    weights = (tmp_path / "model.safetensors").read_bytes()
    x, y = np.zeros((8, 8), np.float32), np.full((8, 4), 7, np.float32)

    def status(arena=arena, size=need, held=weights, rows=8, source=x.ctypes.data, level=0):
        words = (ctypes.c_void_p * 7)(
            arena, size, ctypes.cast(ctypes.c_char_p(held), ctypes.c_void_p).value, 0, 0, 1, level
        )
        pointers = (ctypes.c_void_p(source), ctypes.c_void_p(y.ctypes.data))
        return library.model_run(ctypes.byref(words), ctypes.c_int64(rows), *pointers)

    statuses = [
        status(size=need - 1),
        status(source=None),
        status(held=None),
        status(rows=9),
        status(level=2),
        status(arena=arena + 8),
        library.model_run(None, ctypes.c_int64(8), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data)),
    ]
    assert statuses == [1, 2, 2, 3, 4, 5, 2]
    assert (y == 7).all(), "a refused call wrote its result"
    assert status() == 0
    assert not (y == 7).any()


def test_two_builds_have_the_same_bytes(tmp_path: Path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        rl.compiler.reset()
        package(export(scorer(), (rl.ones(3, 8),)), folder, shared=True)
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert set(first) >= {"model.o", "model.h", "model.json", "model.safetensors", "libmodel.so"}
    assert first == second


def test_objects_of_all_platforms_are_of_their_format(tmp_path: Path):
    made = package(export(scorer(), (rl.ones(3, 8),)), tmp_path, targets=tuple(PLATFORMS))
    assert repr(made).startswith(f"Package('model' in '{tmp_path}', for linux-x86_64, ")
    starts = {
        "linux-x86_64": b"\x7fELF",
        "linux-aarch64": b"\x7fELF",
        "windows-x86_64": b"\x64\x86",
        "macos-x86_64": b"\xcf\xfa\xed\xfe\x07",
        "macos-aarch64": b"\xcf\xfa\xed\xfe\x0c",
        "wasm32": b"\0asm\1\0\0\0",
    }
    assert set(made.objects) == set(starts)
    for platform, path in made.objects.items():
        assert path.read_bytes().startswith(starts[platform]), platform
    for platform in ("linux-x86_64", "linux-aarch64"):
        obj = ElfObject(made.objects[platform].read_bytes())
        assert sorted(obj.defined()) == ["model_arena_size", "model_level", "model_run"]
        assert obj.undefined() <= {"memcpy", "memmove", "memset", "fmaf"}


@pytest.mark.skipif(CC is None, reason="there is no C compiler")
def test_a_c_program_gives_the_same_bits(tmp_path: Path):
    made = package(export(scorer(), (rl.ones(3, 8),)), tmp_path, name="scorer")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]
    subprocess.run([CC, *flags, made.example.name, "scorer.o", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    for seed in range(4):
        run = made.run(seed)
        for name, value in run.inputs.items():
            (tmp_path / name).write_bytes(value.tobytes())
        subprocess.run([tmp_path / "main", *map(str, run.sizes)], cwd=tmp_path, check=True)
        assert {name: (tmp_path / name).read_bytes() for name in run.results} == run.results


@here
def test_every_level_of_the_processor_gives_the_same_bits(tmp_path: Path):
    package(export(scorer(), (rl.ones(3, 8),)), tmp_path, shared=True)
    run = rushlight_runtime.load(tmp_path)
    x = rl.randn(9, 8).numpy()
    wanted = run(x)
    levels = [level for level in (3, 4) if level <= run._level]
    assert levels
    for run._level in levels:
        np.testing.assert_array_equal(run(x), wanted)


@here
def test_the_runtime_needs_numpy_alone(tmp_path: Path):
    package(export(scorer(), (rl.ones(3, 8),)), tmp_path, shared=True)
    program = (
        "import sys, numpy as np\n"
        f"sys.path.insert(0, {str(ROOT / 'packages/rushlight-runtime/src')!r})\n"
        f"from rushlight_runtime import load\nprint(load({str(tmp_path)!r})(np.zeros((2, 8), np.float32)).shape)\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('rushlight', 'llvmlite', 'ml_dtypes')))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "(2, 4)\n[]\n"


@here
def test_the_runtime_says_what_does_not_fit(tmp_path: Path):
    run = loaded(export(scorer(), (rl.ones(3, 8),)), tmp_path)
    with pytest.raises(TypeError, match=r"takes 1 inputs \(input\), and got 2"):
        run(1, 2)
    with pytest.raises(TypeError, match="input: is float64, and the package takes float32"):
        run(np.zeros((2, 8)))
    with pytest.raises(ValueError, match=r"input: has shape \(2, 7\), and \(2, 8\) would fit"):
        run(np.zeros((2, 7), np.float32))
    manifest = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(rushlight_runtime.PackageError, match="format 99"):
        rushlight_runtime.load(tmp_path)
    with pytest.raises(rushlight_runtime.PackageError, match="no package other"):
        rushlight_runtime.load(tmp_path, "other")


def test_sizes_of_memory_are_asked_of_variants_that_the_processor_runs(tmp_path: Path):
    made = package(export(scorer(), (rl.ones(3, 8),)), tmp_path, targets=["linux-x86_64"])
    variants = [Variant(level, f"v{level}_run", f"v{level}_sizing", True) for level in (2, 4)]
    text = emit_functions(made.interface, variants, "x86_64", embedded=False)
    lines = text[text.index("define i64 @model_arena_size") :].partition("\n}")[0].splitlines()
    calls = [at for at, line in enumerate(lines) if "_sizing(" in line]
    assert len(calls) == 2
    for call, level in zip(calls, (4, 2), strict=True):
        assert lines[call - 1].endswith(":")
        assert re.search(rf"icmp sge i64 %v\d+, {level}$", lines[call - 3])
        assert lines[call - 2].strip().startswith("br i1")
