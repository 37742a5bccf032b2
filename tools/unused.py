"""Unused definitions: `python -m tools.unused`.

A function, class, constant or method is used if its name occurs elsewhere in the package, the tools or the tests, or
if it is public: a name in a module's `__all__`, a member of such a class, or a name in documentation. Decorated
definitions are used by their decorator, and tests and hooks by pytest.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from tools.budgets import ROOT, Module, source_files

NAME = re.compile(r"[A-Za-z_]\w*")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public_names(modules: Iterable[Module]) -> set[str]:
    """Return the names in any `__all__`, and the members of the classes among them."""
    named: set[str] = set()
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and any(
                isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets
            ):
                named |= {str(text.value) for text in ast.walk(node.value) if isinstance(text, ast.Constant)}
    return named


def definitions(module: Module) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield name, node and owner of each definition that only its name can reach."""
    for node in module.tree.body:
        yield from _defined(node, "")
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                yield from _defined(member, node.name)


def _defined(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.AST, str]]:
    if isinstance(node, Definition):
        if not node.decorator_list or {"property", "staticmethod", "classmethod", "frozen"} & _decorators(node):
            yield node.name, node, owner
    elif not owner and isinstance(node, ast.Assign):
        yield from ((to.id, node, owner) for to in node.targets if isinstance(to, ast.Name))
    elif not owner and isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node, owner


def _decorators(node: Definition) -> set[str]:
    return {item.id for item in node.decorator_list if isinstance(item, ast.Name)}


def unused(modules: list[Module], documents: Iterable[str]) -> Iterator[str]:
    """Yield a finding for each definition of the package that nothing uses."""
    uses: Counter[str] = Counter()
    for module in modules:
        uses.update(NAME.findall(module.text))
    documented = {name for text in documents for name in NAME.findall(text)}
    public = public_names(modules)
    for module in modules:
        if not module.ours or module.generated:
            continue
        for name, node, owner in definitions(module):
            hidden = (name.startswith("__") and name.endswith("__")) or name.startswith(("test_", "pytest_"))
            if uses[name] < 2 and not hidden and name not in documented and not {name, owner} & public:
                yield module.at(node, f"{owner + '.' if owner else ''}{name} is used nowhere: delete it")


def documents() -> Iterator[str]:
    """Yield the texts of all documentation pages."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return (path.read_text(encoding="utf-8") for path in pages)


def main() -> int:
    """Print unused definitions; return 1 if there are any."""
    found = list(unused([Module(path) for path in source_files()], documents()))
    print(*found, f"unused definitions: {len(found)}", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
