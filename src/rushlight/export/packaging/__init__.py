"""Native packages: exported programs as object files with C headers, which need neither Python nor LLVM to run."""

from rushlight.export.packaging.api import Package, package

__all__ = ["Package", "package"]
