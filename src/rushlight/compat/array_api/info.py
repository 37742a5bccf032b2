"""What `__array_namespace_info__` answers: dtypes, devices and what arrays can do."""

from __future__ import annotations

from typing import Any

from rushlight.compat.array_api.dtypes import KINDS
from rushlight.eager.arguments import default_dtype
from rushlight.ir.dtype import DType, bool_, complex64, complex128, float64, int64
from rushlight.ir.type import CPU, Device
from rushlight.support.errors import fail


class NamespaceInfo:
    """Inspection of the namespace, as the standard has it."""

    def capabilities(self) -> dict[str, Any]:
        """Return whether masks select, whether shapes may depend on values, and the most dims."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device of new arrays."""
        return CPU

    def devices(self) -> list[Device]:
        """Return the devices that hold data."""
        return [CPU]

    def default_dtypes(self, *, device: object = None) -> dict[str, DType]:
        """Return the dtypes of new arrays by the kind of their data."""
        real = default_dtype()
        return {
            "real floating": real,
            "complex floating": complex128 if real is float64 else complex64,
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: object = None, kind: Any = None) -> dict[str, DType]:
        """Return the standard's dtypes of one kind, or of a tuple of kinds, by name. Errors: A002."""
        if kind is None:
            return {"bool": bool_, **KINDS["numeric"]}
        dtypes: dict[str, DType] = {}
        for name in kind if isinstance(kind, tuple) else (kind,):
            if name not in KINDS:
                fail("A002", "dtypes: no such kind of dtypes", kind=name, hint=f"kinds: {', '.join(KINDS)}")
            dtypes.update(KINDS[name])
        return dtypes


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """Return what can be asked of the namespace."""
    return NamespaceInfo()
