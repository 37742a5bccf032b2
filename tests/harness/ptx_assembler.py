"""Whether PTX becomes code: asked of `ptxas` where that is installed."""

import pytest

from rushlight.build.gpu import GpuCode
from tools.gpu_kernels import assembler, spilled


def assembled(code: GpuCode, architecture: str) -> None:
    """All entries are in the text and, where the assembler is here, become code without spills."""
    assert f".target {architecture}" in code.text
    for entry in code.entries:
        assert f".entry {entry.name}(" in code.text
        assert f"[{8 * entry.words}]" in code.text
    if assembler() is None:
        pytest.skip("the peer `ptxas` is not here: pip install nvidia-cuda-nvcc")
    assert spilled(code, architecture) == {entry.name: 0 for entry in code.entries}
