"""Which modules answer for a module of torch.

Four kinds do, and what is in several of them is taken from the first:

1. a module of `rushlight.torch.modules`, for what only the alias has: `torch.jit`, or the flags of `torch.backends`;
2. the public module of Rushlight with the same name: `rushlight.nn.functional` for `torch.nn.functional`;
3. for what Rushlight has in another module, that module: `rushlight.nn` for `torch.nn.modules.conv`;
4. for names that are imported and hardly used, the table `NAMED`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import rushlight
from rushlight.torch.elsewhere import ELSEWHERE
from rushlight.torch.named import named_only
from rushlight.torch.recommenders import PEERS
from rushlight.torch.submodule import Submodule

Target = ModuleType | Submodule

_OWN = "rushlight.torch.modules"


def targets_of(name: str) -> tuple[Target, ...]:
    """Return what answers for a module of `torch`, or of what is beside it; empty if there is none."""
    root, *path = name.split(".")
    tables = PEERS.get(root)
    answers = _answers(path) if tables is None else [_elsewhere(path, table) for table in tables]
    return tuple([target for target in answers if target is not None])


def _answers(path: list[str]) -> tuple[Target | None, ...]:
    return _own(path), _public(path), _elsewhere(path, ELSEWHERE), named_only(".".join(path))


def _own(path: list[str]) -> Target | None:
    """The alias's own module: a file, or a `Submodule` in the file of a parent."""
    owner, depth = import_module(_OWN), 0
    while depth < len(path) and _has_module(owner, path[depth]):
        owner = import_module(f"{owner.__name__}.{path[depth]}")
        depth += 1
    target: object = owner
    for part in path[depth:]:
        target = vars(target).get(part)
        if not isinstance(target, Submodule):
            return None
    return target if isinstance(target, (ModuleType, Submodule)) else None


def _has_module(package: ModuleType, name: str) -> bool:
    return hasattr(package, "__path__") and find_spec(f"{package.__name__}.{name}") is not None


def _public(path: list[str]) -> ModuleType | None:
    """The public module of Rushlight: at each step one of the names that the parent lists in `__all__`."""
    module: object = rushlight
    for part in path:
        if part not in getattr(module, "__all__", ()):
            return None
        module = getattr(module, part)
    return module if isinstance(module, ModuleType) else None


def _elsewhere(path: list[str], table: Mapping[str, str]) -> ModuleType | None:
    """Where Rushlight keeps what PyTorch, or TorchRec, has in this module."""
    target = table.get(".".join(path))
    return None if target is None else import_module(target)


def public_names(targets: tuple[Target, ...]) -> Iterator[str]:
    """Yield the names that the targets list, submodules not included."""
    for target in targets:
        for name in getattr(target, "__all__", ()):
            if not isinstance(getattr(target, name), ModuleType):
                yield name
