"""Optimizer: parameter groups, their hyperparameters, and the state that belongs to each parameter."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, cast

from rushlight.eager.autograd.modes import enable_grad, no_grad
from rushlight.eager.boundary import checked
from rushlight.eager.creation import tensor as make_tensor
from rushlight.eager.dispatch import call_user
from rushlight.eager.tensor import Tensor
from rushlight.eager.tracing import TracedNumber
from rushlight.ops.record import OPERATORS
from rushlight.optim.groups import ParamGroup, listed_params
from rushlight.optim.hooks import Hooked, chained
from rushlight.support.errors import fail, require, warn

Params = Iterable[Any]
Hyperparameter = float | Tensor  # a tensor has one element
State = dict[str, Any]
_REAL, _COMPLEX = OPERATORS["view_as_real"], OPERATORS["view_as_complex"]


class Optimizer(Hooked):
    """Base of optimizers: a subclass defines `init_state` and `update_param`, or overrides `step`.

    Hyperparameters live in `param_groups`, one dict a group. Each step reads them from there, because schedulers change
    them. The operations of a hyperparameter in `switches` are left out when it is exactly 0 (see `ParamGroup`).
    """

    __rushlight_state__ = "runtime"  # numbers in the groups and the state feed arithmetic only
    switches: tuple[str, ...] = ()
    takes_complex = True  # whether a complex parameter may be stepped as its real and imaginary parts
    takes_sparse = False  # whether `update_param` knows sparse gradients
    state_numbers: tuple[str, ...] = ()  # entries of the state, beside `step`, that are numbers; tensors in PyTorch

    state: defaultdict[Tensor, State]
    param_groups: list[ParamGroup]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            fail("A001", "Optimizer: params is one tensor", hint="pass a list of tensors, or model.parameters()")
        if defaults.get("differentiable"):
            fail("A006", f"{type(self).__name__}: differentiable=True is not supported yet")
        super().__init__()
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._switches_off: list[dict[str, bool]] = []  # here too, for the guards of compiled steps
        groups = list(params)
        require(bool(groups), "A002", "optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    @checked
    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add parameters with hyperparameters of their own; the defaults fill the missing ones."""
        fits = isinstance(param_group, Mapping)
        require(fits, "A001", f"a param_group is a dict, not {type(param_group).__name__}")
        require("params" in param_group, "A007", "add_param_group: the group has no params", keys=list(param_group))
        params, names = listed_params(param_group["params"])
        self._check(params)
        named = {"param_names": names} if names else {}
        given = {name: value for name, value in param_group.items() if name != "params"}
        self._add(ParamGroup({"params": params, **self.defaults, **given, **named}, self.switches))

    def _add(self, group: ParamGroup) -> None:
        self.param_groups.append(group)
        self._switches_off.append(group.off)

    def _check(self, params: list[object]) -> None:
        grouped = {id(param) for group in self.param_groups for param in group["params"]}
        for param in params:
            if not isinstance(param, Tensor):
                message = f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}"
                fail("A001", message, hint="pass model.parameters()")
            leaf = param.is_leaf or param.retains_grad
            require(leaf, "A002", "can't optimize a non-leaf Tensor", param=param)
            require(id(param) not in grouped, "A002", "some parameters appear in more than one parameter group")
        if len({id(param) for param in params}) < len(params):
            warn("A008", "Optimizer: a parameter group lists a parameter twice", key=id(self))

    def init_state(self, param: Tensor, group: ParamGroup) -> State:
        """Return the state of a parameter before its first step."""
        return {}

    def update_param(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter; runs under no_grad."""
        fail("A006", f"{type(self).__name__}: an Optimizer defines update_param or step", group=sorted(group))

    def __rushlight_prepare__(self, undo: list[Callable[[], None]]) -> None:
        """Make the state of all parameters, so that a compiled step finds the same entries each time.

        Adds to `undo` a function for steps that fail: it removes the new entries that no step has changed since.
        """
        made: list[tuple[Tensor, State, list[tuple[str, int, int]]]] = []

        def take_away() -> None:
            for param, state, before in made:
                if self.state.get(param) is state and _contents(state) == before:
                    self.state.pop(param, None)

        undo.append(take_away)
        for group in vars(self).get("param_groups", ()):  # a subclass may leave the constructor out
            for param in group["params"]:
                if param.requires_grad and not self.state.get(param):
                    fresh, state = self._first_state(param, group), self.state.get(param, {})
                    if fresh or param not in self.state:
                        made.append((param, state, _contents(fresh)))
                    state.update(fresh)
                    self.state[param] = state

    def _state_of(self, param: Tensor, group: ParamGroup) -> State:
        state = self.state[param]
        if not state:
            state.update(self._first_state(param, group))
        return state

    def _first_state(self, param: Tensor, group: ParamGroup) -> State:
        """The state of a parameter before its first step; of a complex one, that of its parts joined."""
        if not param.is_complex():
            return self.init_state(param, group)
        return {name: _joined(value) for name, value in self.init_state(_REAL(param), group).items()}

    def _update(self, param: Tensor, grad: Tensor, state: State, group: ParamGroup) -> None:
        """Take one step with a parameter; with a complex one as with its real and imaginary parts."""
        if not param.is_complex():
            self.update_param(param, grad, state, group)
            return
        require(self.takes_complex, "D006", f"{type(self).__name__} does not support complex parameters", param=param)
        parts = {name: _parts(value) for name, value in state.items()}
        views = dict(parts)
        self.update_param(_REAL(param), _REAL(grad), parts, group)
        state.update({name: _joined(value) for name, value in parts.items() if value is not views.get(name)})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by their gradients. `closure` computes the loss again, and its gradients, first."""
        loss = None
        if closure is not None:
            require(callable(closure), "A001", "step: closure must be a function", closure=closure)
            with enable_grad():
                loss = call_user(closure)
        with no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    grad = param.grad
                    if grad is not None:
                        if grad.is_sparse and not self.takes_sparse:
                            hint = "SGD, Adagrad and SparseAdam do; or let the layer have sparse=False"
                            name = type(self).__name__
                            fail("A006", f"{name} does not support sparse gradients", param=param, hint=hint)
                        grad = -grad if group.get("maximize") else grad
                        self._update(param, grad, self._state_of(param, group), group)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, or fill them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:  # whether there is one or not: a compiled step is one program for both
                    param.grad = None
                elif param.grad is not None:
                    param.grad = param.grad.detach()
                    param.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Return the state by the parameters' numbers, and the groups with numbers in the parameters' place.

        Counts of steps are tensors without dims in it, as PyTorch has them.
        """
        for hook in list(self._state_dict_pre_hooks.values()):
            call_user(hook, self)
        numbers: dict[int, int] = {}
        for param in chain.from_iterable([group["params"] for group in self.param_groups]):
            numbers.setdefault(id(param), len(numbers))
        groups = [
            {**{name: value for name, value in group.items() if name != "params"}, "params": _numbered(group, numbers)}
            for group in self.param_groups
        ]
        state = {
            numbers[id(param)]: {name: counted(name, value) for name, value in entry.items()}
            for param, entry in self.state.items()
            if id(param) in numbers and entry
        }
        return chained(self._state_dict_post_hooks, self, {"state": state, "param_groups": groups})

    @checked
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take back a state dict, PyTorch's too; parameters are matched by their order."""
        require(isinstance(state_dict, Mapping), "A001", "load_state_dict: a dict is expected", given=state_dict)
        state_dict = chained(self._load_state_dict_pre_hooks, self, dict(state_dict))
        for key in ("param_groups", "state"):
            require(key in state_dict, "A007", f"load_state_dict: there is no {key}", keys=list(state_dict))
        saved_groups = cast(list[dict[str, Any]], state_dict["param_groups"])
        groups = self.param_groups
        same = len(groups) == len(saved_groups)
        require(same, "A002", "loaded state dict has a different number of parameter groups")
        sizes = [(len(group["params"]), len(saved["params"])) for group, saved in zip(groups, saved_groups)]
        fits = all(mine == theirs for mine, theirs in sizes)
        require(
            fits,
            "A002",
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
        )
        params: dict[object, Tensor] = {}
        for group, saved in zip(groups, saved_groups):
            params.update(zip(saved["params"], group["params"], strict=True))
        state: defaultdict[Tensor, State] = defaultdict(dict)
        for number, entry in state_dict["state"].items():
            if number in params:
                state[params[number]] = {
                    name: self._fitted(name, value, params[number]) for name, value in entry.items()
                }
        self.state = state
        self.param_groups, self._switches_off = [], []
        for group, saved in zip(groups, saved_groups, strict=True):
            values = {name: copy.deepcopy(value) for name, value in saved.items() if name != "params"}
            self._add(ParamGroup({"params": group["params"], **values}, self.switches))
        for hook in list(self._load_state_dict_post_hooks.values()):
            call_user(hook, self)

    def _fitted(self, name: str, value: Any, param: Tensor) -> Any:
        """Return a loaded state entry as this parameter's: of its dtype and device, and numbers as numbers."""
        if name == "step":
            return int(value)
        if name in self.state_numbers:
            return float(value)
        if isinstance(value, Tensor):
            return value.to(device=param.device, dtype=param.dtype if param.dtype.is_floating_point else None).clone()
        if isinstance(value, Mapping):
            return {key: self._fitted(str(key), entry, param) for key, entry in value.items()}
        if isinstance(value, list):
            return [self._fitted("", entry, param) for entry in value]
        return copy.deepcopy(value)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _parts(value: object) -> Any:
    """A complex entry of a state as real and imaginary parts, a view."""
    return _REAL(value) if isinstance(value, Tensor) and value.is_complex() else value


def _joined(value: object) -> Any:
    """An entry of pairs of parts as complex numbers; a number as it is."""
    return _COMPLEX(value) if isinstance(value, Tensor) and value.ndim and value.shape[-1] == 2 else value


def _contents(state: State) -> list[tuple[str, int, int]]:
    """Return name, identity and version of each entry: a step that changed the state changed one of these."""
    return [(name, id(value), getattr(value, "_version", 0)) for name, value in state.items()]


def require_hyperparameter(valid: object, text: str) -> None:
    """Raise A002 in PyTorch's words unless a hyperparameter is valid."""
    require(valid, "A002", text)


def require_no_decay(grad: Tensor) -> None:
    """Raise A006 for a sparse gradient: a decayed one would be dense."""
    require(not grad.is_sparse, "A006", "weight_decay option is not compatible with sparse gradients", grad=grad)


def counted(name: str, value: object) -> object:
    """Return a state entry as programs for PyTorch see it: `step` has `cpu()`, `item()` and a dtype."""
    if name != "step" or not (isinstance(value, int) or (isinstance(value, TracedNumber) and value.is_integer)):
        return value
    return make_tensor(cast(int, value) * 1.0, device="cpu")


def _numbered(group: ParamGroup, numbers: Mapping[int, int]) -> list[int]:
    return [numbers[id(param)] for param in group["params"]]


def require_rates(**values: Hyperparameter) -> None:
    """Raise A002 in PyTorch's words where a rate, or another hyperparameter of this name, is below 0."""
    for name, value in values.items():
        words = "learning rate" if name == "lr" else f"{name} value"
        require(value >= 0, "A002", f"Invalid {words}: {value}")


def require_betas(betas: tuple[Hyperparameter, Hyperparameter]) -> None:
    """Raise A002 in PyTorch's words unless the factors of running means are in [0, 1)."""
    for index, beta in enumerate(betas):
        require(0 <= beta < 1, "A002", f"Invalid beta parameter at index {index}: {beta}")
