"""Assembles the GPU kernels of models, and counts the bytes that they spill.

    pip install nvidia-cuda-nvcc
    python -m tools.gpu_kernels [MODEL...] [--resume LEDGER]    a line for each model, number format and architecture
    python -m tools.gpu_kernels --amd [MODEL...]                the same of objects for AMD's GPUs

The models are those of `rushlight.bench.models`, and a table of 8-bit rows; in float32, and in bfloat16, whose products
are those of tensor cores.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import rushlight as rl
from rushlight.build.gpu import AMD_FEATURES, PTX_VERSIONS, GpuCode, compile_amd, compile_ptx
from rushlight.build.segments import HostStep, NativeStep, cut_at_unbacked_outputs, is_segmented
from rushlight.ir.graph import Graph, inner_of, with_dense_outputs
from rushlight.testing import ledger
from tools.amdgpu_metadata import kernels_of
from tools.elsewhere import programs

_FOLDERS = ("cuda_nvcc/bin", "cu13/bin")
DTYPES = {"float32": rl.float32, "bfloat16": rl.bfloat16}


def assembler() -> str | None:
    """NVIDIA's `ptxas`, from the wheel `nvidia-cuda-nvcc` or the path; None if it is not here."""
    spec = importlib.util.find_spec("nvidia")
    for folder in [] if spec is None else list(spec.submodule_search_locations or []):
        for inner in _FOLDERS:
            path = Path(folder) / inner / "ptxas"
            if path.exists():
                return str(path)
    return shutil.which("ptxas")


def spilled(code: GpuCode, architecture: str) -> dict[str, int]:
    """The bytes that each entry spills, as `ptxas -v` says. RuntimeError for text that does not assemble."""
    program = assembler()
    if program is None:
        raise RuntimeError("ptxas is not here: pip install nvidia-cuda-nvcc")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.ptx"
        path.write_text(code.text, encoding="utf-8")
        command = [program, "-v", f"--gpu-name={architecture}", str(path), "-o", str(path.with_suffix(".cubin"))]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(made.stderr)
    names = re.findall(r"Function properties for (\w+)", made.stderr)
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", made.stderr)
    return {name: int(stores) + int(loads) for name, (stores, loads) in zip(names, spills, strict=True)}


@dataclass
class Model:
    """What the assembler says of a model: its kernels, those of them with tensor cores, and the bytes they spill."""

    name: str
    dtype: str
    architecture: str
    kernels: int
    multiplying: int
    spills: dict[str, int]

    @property
    def key(self) -> tuple[str, str, str]:
        """What was asked."""
        return self.name, self.dtype, self.architecture

    def __str__(self) -> str:
        spills = sum(self.spills.values())
        kernels = f"{self.kernels} kernels, {self.multiplying} with tensor cores, {spills} bytes of spills"
        return f"{self.name} {self.dtype} {self.architecture}: {kernels}"


def graphs_of(graph: Graph) -> Iterator[Graph]:
    """What is compiled for a graph: itself, or its parts and the steps of its loops."""
    graph = with_dense_outputs(graph)
    if not is_segmented(graph):
        yield graph
        return
    for step in cut_at_unbacked_outputs(graph):
        if isinstance(step, NativeStep):
            yield step.graph
        elif isinstance(step, HostStep):
            for inner in inner_of(step.call):
                yield from graphs_of(inner.graph)


def asked(name: str, dtype: str, architecture: str) -> Model:
    """Exports and assembles a model."""
    graphs = [graph for graph in graphs_of(programs(DTYPES[dtype])[name]().graph) if graph.calls]
    if architecture in AMD_FEATURES:
        return _of_amd(Model(name, dtype, architecture, 0, 0, {}), graphs)
    codes = [compile_ptx(graph, architecture) for graph in graphs]
    found = {
        f"{number}.{entry}": nbytes
        for number, code in enumerate(codes)
        for entry, nbytes in spilled(code, architecture).items()
    }
    entries = [text for code in codes for text in re.split(r"(?=\.visible \.entry )", code.text)[1:]]
    multiplying = sum([re.search(r"\bw?gmma\.|\bmma\.sync", text) is not None for text in entries])
    spills = {entry: nbytes for entry, nbytes in found.items() if nbytes}
    return Model(name, dtype, architecture, len(found), multiplying, spills)


def _of_amd(model: Model, graphs: Sequence[Graph]) -> Model:
    """Counts the registers that kernels of AMD's GPUs spill, as their objects say."""
    for number, graph in enumerate(graphs):
        for entry, kernel in kernels_of(compile_amd(graph, model.architecture).code).items():
            spilled_registers = kernel[".vgpr_spill_count"] + kernel[".sgpr_spill_count"]
            model.kernels += 1
            model.spills |= {f"{number}.{entry}": 4 * spilled_registers} if spilled_registers else {}
    return model


def main() -> None:
    """Print a line for each, and end with status 1 if a kernel spills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--resume", type=Path, metavar="LEDGER", help="note each line, and leave out those it has")
    parser.add_argument("--amd", action="store_true", help="ask objects of AMD's architectures, which need no ptxas")
    given = parser.parse_args()
    runs = {} if given.resume is None else {run.key: run for run in ledger.noted(given.resume, Model)}
    for name in given.models or programs():
        for dtype in DTYPES:
            for architecture in AMD_FEATURES if given.amd else PTX_VERSIONS:
                key = (name, dtype, architecture)
                if key not in runs:
                    runs[key] = asked(*key)
                    if given.resume is not None:
                        ledger.note(given.resume, asdict(runs[key]))
                print(runs[key], flush=True)
    sys.exit(any(run.spills for run in runs.values()))


if __name__ == "__main__":
    main()
