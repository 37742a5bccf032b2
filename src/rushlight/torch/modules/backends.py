"""`torch.backends`: flags of libraries that are not used. They may be read and set, and change nothing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rushlight.torch.submodule import Submodule

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


def _no(*args: object) -> bool:
    """Return False: it is not there."""
    return False


def _yes(*args: object) -> bool:
    """Return True."""
    return True


def _nothing(*args: object, **options: object) -> None:
    """Do nothing; return None."""


def _capability() -> str:
    """Return "default"."""
    return "default"


@contextmanager
def _flags(*args: object, **options: object) -> Generator[None]:
    """Accept flags for the statements within, or for a decorated function, and change nothing."""
    yield


cudnn = Submodule(
    "Flags of a library for other devices.",
    allow_tf32=True,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    enabled=True,
    flags=_flags,
    is_acceptable=_no,
    is_available=_no,
    version=_nothing,
)
cuda = Submodule(
    "Flags of products and attention on other devices.",
    enable_cudnn_sdp=_nothing,
    enable_flash_sdp=_nothing,
    enable_math_sdp=_nothing,
    enable_mem_efficient_sdp=_nothing,
    flash_sdp_enabled=_yes,
    is_built=_no,
    math_sdp_enabled=_yes,
    matmul=Submodule(
        "Flags of matrix products on other devices.",
        allow_bf16_reduced_precision_reduction=True,
        allow_fp16_reduced_precision_reduction=True,
        allow_tf32=False,
    ),
    mem_efficient_sdp_enabled=_yes,
    sdp_kernel=_flags,
)
mps = Submodule("A device that is not there.", is_available=_no, is_built=_no)
mkl = Submodule("A library that is not used.", is_available=_no)
mkldnn = Submodule("A library that is not used.", enabled=False, flags=_flags, is_available=_no)
openmp = Submodule("A library that is not used.", is_available=_no)
opt_einsum = Submodule("einsum finds its order by opt_einsum.", enabled=True, is_available=_yes, strategy="auto")
mha = Submodule("Attention has one way.", get_fastpath_enabled=_no, set_fastpath_enabled=_nothing)
cpu = Submodule("What the processor can do.", get_cpu_capability=_capability)
