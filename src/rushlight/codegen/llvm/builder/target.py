"""The code generator's view of a machine: architecture, vector width, mask registers."""

from __future__ import annotations

from rushlight.codegen.llvm.builder.gpu_words import WORDS, GpuWords
from rushlight.support.frozen import frozen


@frozen
class CodeTarget:
    """Architecture and width of vector registers in bytes.

    On x86-64, 64 means AVX-512 (F, BW, DQ, VL) and 32 means AVX2 with FMA and F16C. `fma` and the rounding instructions
    need one of the two. With `grid`, kernels have blocks and threads, and a thread has no vectors.
    """

    architecture: str = "x86_64"
    vector_bytes: int = 64
    grid: bool = False

    @property
    def attributes(self) -> str:
        """Function attributes that make LLVM use the full vector width: by default it splits 512-bit vectors."""
        if self.vector_bytes < 64:
            return "nounwind"
        bits = 8 * self.vector_bytes
        return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'

    @property
    def is_gpu(self) -> bool:
        """Whether threads of a block run at once. Elsewhere they run one after the other, and accesses are checked."""
        return self.architecture in WORDS

    @property
    def words(self) -> GpuWords:
        """The words of a GPU's architecture."""
        return WORDS[self.architecture]

    @property
    def emulates(self) -> bool:
        """Whether a processor runs the threads of a grid."""
        return self.grid and not self.is_gpu

    @property
    def has_masks(self) -> bool:
        """Whether a mask register can mask loads and stores of any element size (AVX-512)."""
        return self.vector_bytes == 64

    @property
    def masked_bytes(self) -> int:
        """The smallest element, in bytes, that masked loads and stores handle without a branch per lane."""
        return 1 if self.has_masks else 4

    @property
    def registers(self) -> int:
        """The number of vector registers."""
        return 32 if self.has_masks or self.architecture == "aarch64" else 16
