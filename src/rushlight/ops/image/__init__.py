"""Images and volumes: windows as columns, channels as pixels, samples between pixels."""

from rushlight.ops.image import antialias, grid, shuffle, windows

__all__ = [
    "antialias",
    "grid",
    "shuffle",
    "windows",
]
