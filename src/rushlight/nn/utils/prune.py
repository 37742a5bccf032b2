"""Pruning: weights times masks of zeros and ones, which scores of their elements or channels choose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from rushlight.eager import functions as ops
from rushlight.eager.autograd.modes import no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.composite.statistics import norm
from rushlight.eager.creation import ones_like, zeros
from rushlight.eager.random import rand, rand_like
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.ir.dtype import bool_
from rushlight.nn.modules.module import Module
from rushlight.nn.utils.weight_norm import taken_hook
from rushlight.ops.dims import wrap_dim
from rushlight.support.errors import fail, require
from rushlight.support.peer_names import absent_name

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

T = TypeVar("T", bound=Module)


class BasePruningMethod(ABC):
    """Base of ways to prune: a class defines `compute_mask`, and `PRUNING_TYPE` for use after other methods.

    The type is "unstructured" (elements), "structured" (channels along `dim`) or "global" (all there is). `apply` makes
    the parameter `name_orig` and the buffer `name_mask`, whose product is `name`, computed before each forward.

    ```python
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    EveryOther.apply(layer, "weight")
    ```
    """

    PRUNING_TYPE: str
    _tensor_name: str

    @property
    def name(self) -> str:
        """The name of the tensor that is pruned."""
        return self._tensor_name

    def __call__(self, module: Module, inputs: object) -> None:
        """Compute the pruned tensor before a forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask for a tensor of scores; what `default_mask` has pruned stays so."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the pruned tensor of a module."""
        original: Tensor = getattr(module, f"{self._tensor_name}_orig")
        mask: Tensor = getattr(module, f"{self._tensor_name}_mask")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a tensor of a module after what has pruned it before; return the method, or a container."""
        new = cls(*args, **kwargs)
        new._tensor_name = name
        pruned = any(method.name == name for method in _methods_of(module))
        original: Tensor = getattr(module, f"{name}_orig" if pruned else name)
        scores: Tensor = original if importance_scores is None else importance_scores
        fits = isinstance(scores, Tensor) and scores.shape == original.shape
        require(fits, "A002", "prune: importance_scores must have the tensor's shape", given=scores, tensor=original)
        mask: Tensor = getattr(module, f"{name}_mask").detach().clone() if pruned else ones_like(original.detach())
        method = new
        if pruned:
            method = _together(_method_of(module, name), new)
        with no_grad():
            mask = method.compute_mask(scores.detach(), mask)
        if pruned:
            taken_hook(module, BasePruningMethod, name, "pruning")
        else:
            delattr(module, name)
            kept = original if isinstance(original, Parameter) else Parameter(original)
            module.register_parameter(f"{name}_orig", kept)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a tensor times the mask that is computed for it, or for scores of its shape."""
        scores = t if importance_scores is None else importance_scores
        require(scores.shape == t.shape, "A002", "prune: importance_scores must have the tensor's shape", t=t)
        before = ones_like(t.detach()) if default_mask is None else default_mask
        with no_grad():
            mask = self.compute_mask(scores.detach(), before)
        return t * mask.to(t.dtype)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor a plain parameter, with its zeros."""
        name = self._tensor_name
        pruned = self.apply_mask(module).detach()
        original: Parameter = getattr(module, f"{name}_orig")
        if name in vars(module):
            delattr(module, name)
        delattr(module, f"{name}_orig")
        delattr(module, f"{name}_mask")
        original.data = pruned
        module.register_parameter(name, original)


def _methods_of(module: Module) -> Iterator[BasePruningMethod]:
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook.function, BasePruningMethod):
            yield hook.function


def _method_of(module: Module, name: str) -> BasePruningMethod:
    return next(method for method in _methods_of(module) if method.name == name)


def _together(old: BasePruningMethod, new: BasePruningMethod) -> PruningContainer:
    container = PruningContainer()
    container._tensor_name = new.name
    for method in [*(old if isinstance(old, PruningContainer) else [old]), new]:
        container.add_pruning_method(method)
    return container


class PruningContainer(BasePruningMethod):
    """Methods that have pruned one tensor, in order; the last one sees what the others left."""

    PRUNING_TYPE = "container"

    def __init__(self, *args: Any) -> None:
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in methods:
            if not self._pruning_methods:
                self._tensor_name = method.name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method, which prunes the tensor of the others."""
        if method is None:
            return
        require(isinstance(method, BasePruningMethod), "A001", f"{type(method)} is not a BasePruningMethod subclass")
        same = f"Can only add pruning methods acting on the parameter named '{self.name}'. Found '{method.name}'"
        require(method.name == self.name, "A002", same)
        self._pruning_methods = (*self._pruning_methods, method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of the last method on the elements or channels that are left."""
        method = self._pruning_methods[-1]
        scope = _PLACES.get(method.PRUNING_TYPE)
        if scope is None:
            fail("A002", f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}", known=list(_PLACES))
        left = scope(method, t, default_mask)
        mask = default_mask.to(t.dtype)
        mask = mask.clone() if mask is default_mask else mask
        mask[left] = method.compute_mask(t[left], default_mask[left]).to(t.dtype)
        return mask


def _elements_left(method: object, t: Tensor, mask: Tensor) -> object:
    return mask == 1


def _channels_left(method: Any, t: Tensor, mask: Tensor) -> object:
    dim = wrap_dim(method.dim, t.ndim, "prune")
    others = tuple([at for at in range(t.ndim) if at != dim])
    return (slice(None),) * dim + ((mask.sum(others) if others else mask) != 0,)


_PLACES: Mapping[str, Callable[[Any, Tensor, Tensor], object]] = {
    "unstructured": _elements_left,
    "structured": _channels_left,
    "global": lambda method, t, mask: (slice(None),) * t.ndim,
}


def _require_amount(amount: object) -> None:
    number = isinstance(amount, (int, float)) and not isinstance(amount, bool)
    require(number, "A001", f"Invalid type for amount: {amount}. Must be int or float.")
    fits = 0 <= amount <= 1 if isinstance(amount, float) else amount >= 0  # pyright: ignore[reportOperatorIssue] - a number
    form = "Should be a float in the range [0, 1] or a non-negative integer"
    require(fits, "A002", f"amount={amount} is invalid: {form}")


def _count(amount: float, size: int) -> int:
    """How many of `size` elements are pruned."""
    if isinstance(amount, int):
        require(amount <= size, "A002", f"amount={amount} should be smaller than the number of parameters={size}")
        return amount
    return round(amount * size)


def _without_least(scores: Tensor, mask: Tensor, amount: float) -> Tensor:
    """A mask without the elements of the least scores."""
    count = _count(amount, scores.numel())
    result = mask.clone()
    if count:
        flat = result.reshape(-1)
        flat[scores.reshape(-1).topk(count, 0, False).indices] = 0
        result = flat.reshape(mask.shape)
    return result


def _without_channels(scores: Callable[[int], Tensor], t: Tensor, mask: Tensor, amount: float, dim: int) -> Tensor:
    """A mask without the channels of the least scores; `scores` gives those of a dim's channels."""
    few = "Structured pruning can only be applied to multidimensional tensors."
    require(t.ndim > 1, "A002", few, t=t)
    along = wrap_dim(dim, t.ndim, "prune")
    size = t.shape[along]
    count = _count(amount, size)
    if not count:
        return mask
    kept = zeros(size, dtype=bool_, device=t.device)
    kept[scores(along).topk(size - count).indices] = True
    shape = [-1 if at == along else 1 for at in range(t.ndim)]
    return ops.where(kept.reshape(shape), mask, ops.mul(mask, 0))


class Identity(BasePruningMethod):
    """Prunes nothing: the tensor gets a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask that there is."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random: a number of them, or a part between 0.0 and 1.0."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _require_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask without some elements."""
        return _without_least(rand_like(t), default_mask, self.amount)


class L1Unstructured(RandomUnstructured):
    """Prunes the elements of the least magnitude: a number of them, or a part between 0.0 and 1.0."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask without the least elements."""
        return _without_least(ops.abs(t), default_mask, self.amount)


class RandomStructured(BasePruningMethod):
    """Prunes channels along `dim` at random: a number of them, or a part between 0.0 and 1.0."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _require_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask without some channels."""
        return _without_channels(lambda along: rand(t.shape[along]), t, default_mask, self.amount, self.dim)


class LnStructured(BasePruningMethod):
    """Prunes the channels along `dim` with the least norms of order `n` (a number, "fro" or "nuc")."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        _require_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask without the least channels."""

        def norms(along: int) -> Tensor:
            return norm(t, self.n, tuple([at for at in range(t.ndim) if at != along]))

        return _without_channels(norms, t, default_mask, self.amount, self.dim)


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask of the tensor's shape is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of both masks."""
        require(default_mask.shape == self.mask.shape, "A002", "prune: the mask has another shape", mask=self.mask, t=t)
        return default_mask * self.mask.to(default_mask.dtype)


@checked
def identity(module: T, name: str) -> T:
    """Give a tensor of a module the form of pruned ones, with a mask of ones."""
    Identity.apply(module, name)
    return module


@checked
def random_unstructured(module: T, name: str, amount: float) -> T:
    """Prune elements at random; see RandomUnstructured."""
    RandomUnstructured.apply(module, name, amount)
    return module


@checked
def l1_unstructured(module: T, name: str, amount: float, importance_scores: Tensor | None = None) -> T:
    """Prune the elements of the least magnitude, their own or that of scores; see L1Unstructured."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


@checked
def random_structured(module: T, name: str, amount: float, dim: int) -> T:
    """Prune channels along a dim at random; see RandomStructured."""
    RandomStructured.apply(module, name, amount, dim)
    return module


@checked
def ln_structured(
    module: T, name: str, amount: float, n: float | str, dim: int, importance_scores: Tensor | None = None
) -> T:
    """Prune the channels along a dim with the least norms; see LnStructured."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


@checked
def custom_from_mask(module: T, name: str, mask: Tensor) -> T:
    """Prune where a mask is 0; see CustomFromMask."""
    CustomFromMask.apply(module, name, mask)
    return module


@checked
def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: object,
) -> None:
    """Prune tensors of several modules as one vector, by an unstructured method with arguments `kwargs`."""
    places = list(parameters)
    unstructured = getattr(pruning_method, "PRUNING_TYPE", None) == "unstructured"
    only = 'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`.'
    require(unstructured, "A001", only, pruning_method=pruning_method)
    scores_by_place = importance_scores or {}
    tensors: list[Tensor] = [getattr(module, name) for module, name in places]
    scores = [scores_by_place.get(key, tensor) for key, tensor in zip(places, tensors, strict=True)]
    masks = [
        getattr(module, f"{name}_mask", ones_like(tensor.detach()))
        for (module, name), tensor in zip(places, tensors, strict=True)
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    with no_grad():
        flat = container.compute_mask(
            ops.cat([one.detach().reshape(-1) for one in scores]), ops.cat([mask.reshape(-1) for mask in masks])
        )
    begin = 0
    for (module, name), tensor in zip(places, tensors, strict=True):
        end = begin + tensor.numel()
        custom_from_mask(module, name, flat[begin:end].reshape(tensor.shape))
        begin = end


@checked
def remove(module: T, name: str) -> T:
    """Make a pruned tensor a plain parameter, with its zeros. Errors: A002 where it is not pruned."""
    pruned = any(method.name == name for method in _methods_of(module))
    first = f"Parameter '{name}' of module {type(module).__name__} has to be pruned before pruning can be removed"
    require(pruned, "A002", first)
    taken_hook(module, BasePruningMethod, name, "pruning").remove(module)
    return module


@checked
def is_pruned(module: Module) -> bool:
    """Return whether a tensor of a module, or of one below it, is pruned."""
    return any(True for one in module.modules() for _ in _methods_of(one))


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
