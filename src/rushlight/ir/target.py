"""What the code generator may use: a machine by name, its features and its vector width."""

from rushlight.support.frozen import frozen


@frozen
class Target:
    """A machine that native code is made for; `features` is LLVM's comma-separated list. It may be empty."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int

    @property
    def architecture(self) -> str:
        """The first part of the triple: `x86_64`, `aarch64`."""
        return self.triple.partition("-")[0]
