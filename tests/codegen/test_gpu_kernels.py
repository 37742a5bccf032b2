"""Kernels of models become code without spills; `python -m tools.gpu_kernels` asks all models."""

import pytest

from rushlight.build.gpu import PTX_VERSIONS
from tools.gpu_kernels import asked, assembler


@pytest.mark.slow
@pytest.mark.generated("architecture")
@pytest.mark.parametrize("architecture", PTX_VERSIONS)
@pytest.mark.parametrize(("name", "dtype"), [("lstm", "bfloat16"), ("dlrm", "bfloat16"), ("8-bit rows", "float32")])
def test_kernels_of_a_model_assemble_without_spills(name: str, dtype: str, architecture: str):
    if assembler() is None:
        pytest.skip("the peer `ptxas` is not here: pip install nvidia-cuda-nvcc")
    model = asked(name, dtype, architecture)
    assert not model.spills
    assert model.kernels
    assert bool(model.multiplying) is (dtype == "bfloat16")
