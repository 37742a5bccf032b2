"""The operators that `rushlight` itself names: the block of imports in `rushlight/__init__.py`, and its `__all__`.

The rest of that module is written by hand. An operator's function is public there when PyTorch has its name at the top,
or when its record is none of PyTorch's but the operator is meant for users (`EXTRA`).
"""

import ast
import re
from pathlib import Path

from rushlight.support.peer_names import peer_names

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = "src/rushlight/__init__.py"
FUNCTIONS = "src/rushlight/eager/functions.py"
BLOCK = re.compile(r"from rushlight\.eager\.functions import \((.*?)\)\n", re.DOTALL)
ALL = re.compile(r"__all__ = \[(.*?)\]\n", re.DOTALL)
EXTRA = ("rms_norm",)


def outputs() -> dict[str, str]:
    """Return the text of the package's module by its path in the repository."""
    text = (ROOT / PUBLIC).read_text(encoding="utf-8")
    names = operator_names(text)
    text = BLOCK.sub(lambda _: f"from rushlight.eager.functions import (\n{indented(names)})\n", text)
    exported = indented([f'"{name}"' for name in public_names(text)])
    return {PUBLIC: ALL.sub(lambda _: f"__all__ = [\n{exported}]\n", text)}


def operator_names(text: str) -> list[str]:
    """Return the operators' functions that are public and not given by another import of the module."""
    tree = ast.parse((ROOT / FUNCTIONS).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    wanted = functions & (peer_names("rushlight") | set(EXTRA))
    taken = set(imported_names(BLOCK.sub("", text)))
    return sorted(wanted - taken, key=order)


def imported_names(text: str) -> list[str]:
    """Return what a module imports or defines at its top, private names and other modules aside."""
    names: list[str] = []
    body = ast.parse(text).body
    # Under `if _TYPE_CHECKING` are the names that are loaded when first asked for.
    later = [item for node in body if isinstance(node, ast.If) for item in node.body]
    for node in [*body, *later]:
        if isinstance(node, ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


def public_names(text: str) -> list[str]:
    """Return the module's `__all__`, in the linter's order."""
    names = {name for name in imported_names(text) if not name.startswith("_") or name == "__version__"}
    return sorted(names, key=order)


def order(name: str) -> tuple[object, ...]:
    """Sort constants, then classes, then the rest, numbers in names by value, as the linter does."""
    rank = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return rank, *[(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def indented(names: list[str]) -> str:
    """Return one name a line."""
    return "".join([f"    {name},\n" for name in names])
