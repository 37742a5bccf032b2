"""NVIDIA's assembler `ptxas`, from the wheel `nvidia-cuda-nvcc` or the path: what it says of kernels."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rushlight.build.gpu import GpuCode

FOLDERS = ("cuda_nvcc/bin", "cu13/bin")


def tool() -> str | None:
    """The assembler; None if it is not here."""
    spec = importlib.util.find_spec("nvidia")
    for folder in [] if spec is None else list(spec.submodule_search_locations or []):
        for inner in FOLDERS:
            path = Path(folder) / inner / "ptxas"
            if path.exists():
                return str(path)
    return shutil.which("ptxas")


def spilled(code: GpuCode, architecture: str, folder: Path) -> dict[str, int]:
    """The bytes that each entry spills."""
    program = tool()
    assert program is not None, "no ptxas"
    path = folder / f"kernels-{architecture}.ptx"
    path.write_text(code.text)
    command = [program, "-v", f"--gpu-name={architecture}", str(path), "-o", str(path.with_suffix(".cubin"))]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    names = re.findall(r"Function properties for (\w+)", made.stderr)
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", made.stderr)
    return {name: int(stores) + int(loads) for name, (stores, loads) in zip(names, spills, strict=True)}


def assembled(code: GpuCode, architecture: str, folder: Path) -> None:
    """All entries are in the text and, where the assembler is here, become code without spills."""
    assert f".target {architecture}" in code.text
    for entry in code.entries:
        assert f".entry {entry.name}(" in code.text
        assert f"[{8 * entry.words}]" in code.text
    if tool() is None:
        pytest.skip("the peer `ptxas` is not here: pip install nvidia-cuda-nvcc")
    assert spilled(code, architecture, folder) == {entry.name: 0 for entry in code.entries}
