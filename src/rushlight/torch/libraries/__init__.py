"""Native libraries that packages load by `torch.ops.load_library`: what defines their operators here."""

from __future__ import annotations

from pathlib import PurePath

__all__ = ["FUNCTIONS", "module_of"]

FUNCTIONS = {"fbgemm": "rushlight.recsys.fbgemm", "torchvision": "rushlight.torch.libraries.vision.built"}
"""Namespaces of operators that are functions of a module, by their names; nothing needs to be loaded."""

_MODULES = {
    ("torchvision", "_C"): "rushlight.torch.libraries.vision",
    ("torchvision", "_C_stable"): "rushlight.torch.libraries.vision",
}
"""The module that defines the operators of a library, by the library's folder and file."""


def module_of(path: object) -> str | None:
    """Return the module that defines the operators of the native library at `path`, or None."""
    file = PurePath(str(path))
    return _MODULES.get((file.parent.name, file.name.partition(".")[0]))
