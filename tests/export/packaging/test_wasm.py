"""Modules of WebAssembly: what they are made of, and in Node the bits of compiled code."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.llvm.interface.memory import emit_fused
from rushlight.export import Dim, export, package
from rushlight.export.packaging.wasm_module import wasm_module
from rushlight.runtime import llvm

F = rl.nn.functional
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="the peer Node is not here")


class Classifier(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rl.manual_seed(0)
        self.first, self.norm, self.last = rl.nn.Linear(8, 16), rl.nn.LayerNorm(16), rl.nn.Linear(16, 4)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.last(self.norm(F.gelu(self.first(x)))).softmax(-1)


class Attention(rl.nn.Module):
    """Products of open sizes, a mask, and more launches than are spelled out."""

    def __init__(self) -> None:
        super().__init__()
        rl.manual_seed(1)
        self.blocks = rl.nn.ModuleList([rl.nn.Linear(24, 72) for _ in range(4)])
        self.outs = rl.nn.ModuleList([rl.nn.Linear(24, 24) for _ in range(4)])

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        for block, out in zip(self.blocks, self.outs, strict=True):
            q, k, v = block(x).chunk(3, -1)
            x = x + out(F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0])
        return x


class Lookup(rl.nn.Module):
    """A table of 8 bits, looked up and pooled, then products of whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.register_buffer("table", rl.tensor(rng.integers(-128, 128, (50, 12)), dtype=rl.int8))

    def forward(self, ids: rl.Tensor) -> rl.Tensor:
        rows = self.table[ids]
        return rows.to(rl.float32).mean(0) * 0.25 + rows.to(rl.int32).sum(0)


MODELS: dict[str, Callable[[], tuple[rl.nn.Module, rl.Tensor]]] = {
    "classifier": lambda: (Classifier(), rl.ones(3, 8)),
    "attention": lambda: (Attention(), rl.ones(5, 24)),
    "lookup": lambda: (Lookup(), rl.ones(6, dtype=rl.int64)),
}


def made(folder: Path, name: str, embed: bool = False) -> rl.export.Package:
    model, example = MODELS[name]()
    sizes = {0: {0: Dim("rows", max=4096)}}
    program = export(model, (example,), dynamic_shapes=tuple(sizes.values()))
    return package(program, folder, name="model", targets=["wasm32"], embed=embed)


def ran(folder: Path, sizes: tuple[int, ...]) -> subprocess.CompletedProcess[str]:
    command = [str(NODE), "model.mjs", *map(str, sizes)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@needs_node
@pytest.mark.parametrize("embed", [False, True], ids=["weights outside", "weights inside"])
@pytest.mark.parametrize("name", MODELS)
def test_a_module_gives_the_bits_of_compiled_code_in_node(tmp_path: Path, name: str, embed: bool):
    packaged = made(tmp_path, name, embed)
    for seed in range(6 if not embed else 2):
        run = packaged.run(seed)
        for title, value in run.inputs.items():
            (tmp_path / title).write_bytes(value.tobytes())
        ended = ran(tmp_path, run.sizes)
        assert ended.returncode == 0, ended.stderr
        assert {title: (tmp_path / title).read_bytes() for title in run.results} == run.results


@needs_node
def test_a_size_out_of_range_is_a_status(tmp_path: Path):
    made(tmp_path, "classifier")
    ended = ran(tmp_path, (5000,))
    assert (ended.returncode, ended.stderr) == (3, "status 3\n")


def test_two_builds_have_the_same_bytes(tmp_path: Path):
    first, second = (made(tmp_path / folder, "classifier").objects["wasm32"].read_bytes() for folder in "ab")
    assert first == second


def test_a_function_that_is_nowhere_is_an_error():
    text = """declare double @fma(double, double, double)
define double @run(double %x) { %y = call double @fma(double %x, double %x, double %x) ret double %y }"""
    obj = llvm.compile_object(text.replace(" ret", "\n ret").replace("{ %y", "{\n %y").replace("%y }", "%y\n}"), TARGET)
    with pytest.raises(rl.RushlightError) as caught:
        wasm_module(obj, ["run"])
    assert caught.value.code == "C005"
    assert "fma" in str(caught.value)


TARGET = llvm.target_named("wasm32")

_FUSED = """
define float @run(float %a, float %b, float %c) {
  %y = call float @llvm.fma.f32(float %a, float %b, float %c)
  ret float %y
}
"""


@needs_node
def test_fused_products_are_rounded_once(tmp_path: Path):
    """Against the processor's own instruction, on numbers whose sums cancel, are halfway, denormal or infinite."""
    module = wasm_module(llvm.compile_object(_FUSED + emit_fused(), TARGET), ["run"])
    (tmp_path / "fused.wasm").write_bytes(module)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, (3000, 3), dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (1 + rng.integers(0, 1 << 12, (3000, 3)) * 2.0**-23).astype(np.float32)
    near[:, 2] = -(near[:, 0] * near[:, 1])
    tiny = (near * np.float32(2.0**-75)).astype(np.float32)
    tiny[:, 2] = 0
    odd = np.array([[np.inf, 0, 1], [np.inf, 1, -np.inf], [-0.0, 1, -0.0], [1, -1, 1], [2e38, 2, 0]], np.float32)
    values = np.concatenate([bits, near, tiny, odd])
    (tmp_path / "values").write_bytes(values.tobytes())
    script = """import {readFileSync, writeFileSync} from "node:fs";
const {instance} = await WebAssembly.instantiate(readFileSync("fused.wasm"), {});
const data = readFileSync("values");
const given = new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
const made = new Float32Array(given.length / 3);
for (let i = 0; i < made.length; ++i) made[i] = instance.exports.run(given[3*i], given[3*i+1], given[3*i+2]);
writeFileSync("made", new Uint8Array(made.buffer));
"""
    (tmp_path / "main.mjs").write_text(script)
    subprocess.run([str(NODE), "main.mjs"], cwd=tmp_path, check=True, timeout=120)
    found = np.frombuffer((tmp_path / "made").read_bytes(), np.float32)
    fused, _module = _host_fused()
    wanted = np.array([fused(*row) for row in values.tolist()], np.float32)
    same = (found.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(found) & np.isnan(wanted))
    assert same.all(), values[~same][:3]


def _host_fused() -> tuple[Callable[[float, float, float], float], object]:
    """The processor's a*b + c, and what keeps its code."""
    host = llvm.host_target()
    module = llvm.load_object(llvm.compile_object(_FUSED, host))
    return ctypes.CFUNCTYPE(*[ctypes.c_float] * 4)(module.address("run")), module
