"""ModuleTree: visiting a module's submodules, parameters and buffers by dotted name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from rushlight.eager.boundary import checked
from rushlight.eager.dispatch import call_user
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn.tree.registry import Registry
from rushlight.support.errors import fail, require

T = TypeVar("T")
Named = Iterator[tuple[str, T]]


class ModuleTree(Registry):
    """A registry that visits its own entries, and those below it, by dotted name."""

    def named_children(self) -> Named[Any]:
        """Yield direct submodules with their names, each once."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Any]:
        """Yield direct submodules, each once."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[Registry] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Named[Any]:
        """Yield this module and all below it with their dotted names, parents first."""
        seen: set[Registry] = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(seen, inner, remove_duplicate)

    def modules(self) -> Iterator[Any]:
        """Yield this module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Named[Parameter]:
        """Yield parameters with their dotted names; a shared one comes once, under its first name."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield parameters, each once."""
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Named[Tensor]:
        """Yield buffers with their dotted names; a shared one comes once, under its first name."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_members(self, table: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Named[Any]:
        seen: set[int] = set()
        owners = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for owner_name, owner in owners:
            for name, member in owner.__dict__[table].items():
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{owner_name}.{name}" if owner_name else name), member

    @checked
    def get_submodule(self, target: str) -> Any:
        """Return the submodule of a dotted name; the empty name is the module itself."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                fail("N002", f"{type(module).__name__} has no attribute {name} (looking for {target})")
            module = getattr(module, name)
            if not isinstance(module, Registry):
                fail("N002", f"{name} is not a module (looking for {target})")
        return module

    @checked
    def set_submodule(self, target: str, module: Any) -> None:
        """Put a module in the place of the submodule of a dotted name, or add it to the module that is there."""
        require(bool(target), "A002", "set_submodule: a name is expected, not the module itself")
        require(isinstance(module, Registry), "A001", "set_submodule: not a module", given=type(module).__name__)
        path, _, name = target.rpartition(".")
        setattr(self.get_submodule(path), name, module)

    @checked
    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter of a dotted name."""
        return self._member(target, Parameter)

    @checked
    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer of a dotted name."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if name not in owner._buffers:
            fail("N002", f"{target} is not a buffer")
        return owner._buffers[name]

    def _member(self, target: str, kind: type[T]) -> T:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        member = getattr(owner, name)
        if not isinstance(member, kind):
            fail("N002", f"{target} is a {type(member).__name__}, not a {kind.__name__}")
        return member

    def apply(self, fn: Callable[[Any], object]) -> Self:
        """Call a function on every module below this one and then on this one."""
        for module in self.children():
            module.apply(fn)
        call_user(fn, self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set training mode (dropout drops, batch norm uses the batch) here and below."""
        require(isinstance(mode, bool), "A002", "train: the mode must be a bool")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters get gradients."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the parameters' gradients, or fill them with zeros."""
        for param in self.parameters():
            if set_to_none:  # whether there is one or not: a compiled step is one program for both
                param.grad = None
            elif param.grad is not None:
                param.grad = param.grad.detach()
                param.grad.zero_()
