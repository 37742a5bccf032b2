"""What `importlib.metadata` answers for `torch`."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path

from rushlight.torch.modules import __version__

__all__ = ["TorchDistribution"]

_TEXTS = {
    "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\nSummary: Rushlight as torch\n",
    "top_level.txt": "torch\n",
}


class TorchDistribution(Distribution):
    """A distribution without files: `importlib.metadata.version("torch")` is the version whose API is followed."""

    def read_text(self, filename: str) -> str | None:
        """Return the text of a metadata file, None where there is none."""
        return _TEXTS.get(filename)

    def locate_file(self, path: object) -> Path:
        """Return where a file would be; there are none."""
        return Path(__file__).parent / str(path)
