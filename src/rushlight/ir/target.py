"""What the code generator may use: a machine by name, its features and its vector width."""

from typing import ClassVar

from rushlight.support.frozen import frozen


@frozen
class Target:
    """A machine that native code is made for; `features` is LLVM's comma-separated list.

    It may be empty. The class attributes are the distances and limits that schedule and code generation share. They are
    the same on all machines so far, and measured on Zen 3 and Zen 4.
    """

    LINE_BYTES: ClassVar[int] = 64
    """A cache line."""
    MOST_LANES: ClassVar[int] = 64
    """The most lanes of a vector: those of four AVX-512 registers of float32."""
    WIDE_LOAD_STRIDE: ClassVar[int] = 4
    """Stride in elements up to which one wide load and a shuffle cost less than a gather."""
    TRANSPOSED_SIDE: ClassVar[int] = 8
    """Neighbours of a transposed load: it is a square of this many lanes by this many elements."""
    NEAR_CACHE_BYTES: ClassVar[int] = 64 << 10
    """A longer row leaves the nearest caches before its next use: it is not prefetched or spilled to the stack."""
    NONTEMPORAL_BYTES: ClassVar[int] = 32 << 20
    """From this size most of a result has left the last-level cache by the time it is complete."""
    GRAIN_STEPS: ClassVar[int] = 16384
    """The least work, in scalar steps, that is worth waking another thread for."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int

    @property
    def architecture(self) -> str:
        """The first part of the triple: `x86_64`, `aarch64`."""
        return self.triple.partition("-")[0]
