"""The finder and loader of the alias: `torch` and what is below it, on `sys.meta_path`.

A module of the alias is an ordinary module, empty at first, whose `__getattr__` (PEP 562) looks a name up in its
targets and keeps it. What it gives are Rushlight's own objects: `torch.nn.Linear is rushlight.nn.Linear`.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType

from rushlight.support.errors import error, require
from rushlight.support.peer_names import count_absent
from rushlight.torch import starting
from rushlight.torch.distribution import TorchDistribution
from rushlight.torch.recommenders import PEERS
from rushlight.torch.report import write_absent
from rushlight.torch.submodule import Submodule
from rushlight.torch.targets import Target, public_names, targets_of

__all__ = ["AliasFinder", "AliasLoader", "install", "uninstall"]

ROOT = "torch"
ROOTS = (ROOT, *PEERS)


class AliasFinder(MetaPathFinder):
    """Finds `torch` and what is beside it, their submodules, and what `importlib.metadata` says of torch."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module of torch; None for one that does not exist here."""
        if fullname.partition(".")[0] not in ROOTS:
            return None
        targets = targets_of(fullname)
        if targets:
            return ModuleSpec(fullname, AliasLoader(targets), origin=_file_of(targets), is_package=True)
        count_absent(fullname)
        return None

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008 - as importlib has it
    ) -> Iterable[Distribution]:
        """Return the distribution `torch` where it, or all, are asked for."""
        return [TorchDistribution()] if context.name in (None, ROOT) else []


class AliasLoader(Loader):
    """Makes the module of a few targets."""

    def __init__(self, targets: tuple[Target, ...]) -> None:
        self.targets = targets

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return an empty module."""
        return _AliasModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Give a module the names of its targets, each when it is first asked for."""
        name, targets = module.__name__, self.targets

        def look_up(attribute: str) -> object:
            value = _attribute(name, targets, attribute)
            setattr(module, attribute, value)
            return value

        def names() -> list[str]:
            return sorted({*vars(module), *public_names(targets)})

        module.__doc__ = targets[0].__doc__
        module.__file__ = _file_of(targets)
        vars(module).update(
            _loaded_names(targets), __getattr__=look_up, __dir__=names, __all__=[*public_names(targets)]
        )


class _AliasModule(ModuleType):
    """A module whose functions keep their names when submodules of these names are imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}":
            targets = getattr(self.__spec__, "loader", AliasLoader(())).targets
            own = [vars(target)[name] for target in targets if name in vars(target)]
            value = own[0] if own and callable(own[0]) else value
        super().__setattr__(name, value)


def _loaded_names(targets: tuple[Target, ...]) -> dict[str, object]:
    """Public names that are loaded already, so that programs which walk over a module's dict see them."""
    found: dict[str, object] = {}
    for target in reversed(targets):
        names = [name for name in getattr(target, "__all__", ()) if name in vars(target)]
        found.update({name: vars(target)[name] for name in names if not isinstance(vars(target)[name], ModuleType)})
    return found


def _attribute(module: str, targets: tuple[Target, ...], name: str) -> object:
    """The value of a name: a submodule, or what the first target that has it holds."""
    own = [target for target in targets if name in vars(target)]
    if own and (callable(vars(own[0])[name]) or not isinstance(vars(own[0])[name], ModuleType | Submodule)):
        return vars(own[0])[name]  # also of a module that is called, as `tile`
    if (own or not name.startswith("__")) and targets_of(f"{module}.{name}"):
        return import_module(f"{module}.{name}")
    if not own:
        for target in reversed(targets):
            if hasattr(target, "__getattr__"):
                return getattr(target, name)  # of a module that loads names when they are asked for, or has its error
    if name.startswith("__"):
        raise AttributeError(f"module {module} has no attribute {name}")
    count_absent(f"{module}.{name}")
    raise error("N001", f"{module}.{name} does not exist in Rushlight")


def _file_of(targets: tuple[Target, ...]) -> str:
    """A file for messages of imports that fail: it shows that this torch is Rushlight."""
    return next((str(target.__file__) for target in targets if isinstance(target, ModuleType)), __file__)


_FINDER = AliasFinder()


def install() -> None:
    """Make `import torch` Rushlight in this process; a second call does nothing.

    Must run before torch is imported (A004). At the end of the process one line on standard error lists the names
    of torch that were asked for and do not exist here.
    """
    if _FINDER in sys.meta_path:
        return
    early = [root for root in ROOTS if root in sys.modules]
    require(not early, "A004", "install: torch is imported already", modules=early, hint="install the alias first")
    sys.meta_path.insert(0, _FINDER)
    atexit.register(write_absent)
    starting.hand_on(install)


def uninstall() -> None:
    """Undo `install`: torch is again what is installed on this machine, if anything is."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        atexit.unregister(write_absent)
        starting.stop()
        for name in [name for name in sys.modules if name.partition(".")[0] in ROOTS]:
            del sys.modules[name]
