"""Optimizers whose states go by the names of parameters, by TorchRec's names."""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import rushlight as rl
from rushlight import Tensor
from rushlight.optim import Optimizer
from rushlight.optim.hooks import Hooked
from rushlight.optim.optimizer import counted
from rushlight.support.errors import fail, require

Groups = Sequence[dict[str, Any]]
_SAVES = "_save_param_groups"


class KeyedOptimizer(Optimizer):
    """An optimizer of named parameters: its state dict has their names where others have numbers.

    Subclasses define `step`. Groups are in the state dict after `save_param_groups(True)` alone. A state is loaded in
    place, and fits entry by entry (P004).
    """

    def __init__(
        self, params: Mapping[str, Any], state: Mapping[Any, Any], param_groups: Collection[Mapping[str, Any]]
    ) -> None:
        Hooked.__init__(self)
        own = set(params.values())
        odd = [key for key in state if key not in own]
        require(not odd, "A002", "All state keys must be params", others=len(odd))
        self.params = params if isinstance(params, dict) else dict(params)
        views: dict[str, Any] = {"state": state, "param_groups": param_groups}  # another optimizer's, as they are
        vars(self).update(views)
        self.defaults = {_SAVES: False}

    def add_param_group(self, param_group: Any) -> NoReturn:
        """Raise A006: the parameters are those that were named."""
        fail("A006", f"{type(self).__name__}: a named optimizer takes no more groups", group=param_group)

    def save_param_groups(self, save: bool) -> None:
        """Set whether state dicts have the groups."""
        self.defaults[_SAVES] = save

    def init_state(self, param: Any = None, group: Any = None) -> dict[str, Any]:
        """Make all states, by a step with gradients of zeros."""
        del param, group
        for one in self.params.values():
            if one.requires_grad:
                one.grad = rl.zeros_like(one)
        self.step(closure=None)
        return {}

    def inner(self) -> Sequence[Optimizer]:
        """Return the optimizers that this one steps with."""
        return ()

    def __rushlight_prepare__(self, undo: list[Callable[[], None]]) -> None:
        """Have the states made that a compiled step finds."""
        for one in self.inner():
            one.__rushlight_prepare__(undo)

    def post_load_state_dict(self) -> None:
        """Do what is to be done after a state was loaded; nothing here."""

    def state_dict(self) -> dict[str, Any]:
        """Return `{"state": {name: {entry: value}}}`."""
        names = {id(param): name for name, param in self.params.items()}
        made: dict[str, Any] = {
            "state": {
                names[id(param)]: {name: counted(name, value) for name, value in entry.items()}
                for param, entry in self.state.items()
            }
        }
        if self.defaults[_SAVES]:
            made["param_groups"] = [self._named(group, names) for group in self.param_groups]
        return made

    def _named(self, group: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
        values = {name: copy.deepcopy(value) for name, value in group.items() if name != "params"}
        return {"params": sorted(names[id(param)] for param in group["params"]), **values}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take a state over."""
        given = state_dict["state"]
        require(len(given) == len(self.state), "P004", "another number of parameters", given=len(given))
        pairs: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
        for name, param in self.params.items():
            if param in self.state:
                own = self.state[param]
                require(name in given, "P004", f"the state has no parameter {name}")
                same = set(own) == set(given[name])
                require(same, "P004", f"the state of {name} has other entries", given=list(given[name]), own=list(own))
                pairs.append((own, given[name]))
        groups = self._paired_groups(state_dict["param_groups"]) if self.defaults[_SAVES] else []
        for own, values in pairs:
            _copy_entries(own, values)
        for own, values in groups:
            own.update({name: copy.deepcopy(value) for name, value in values.items() if name != "params"})
        self.post_load_state_dict()

    def _paired_groups(self, given: Groups) -> list[tuple[dict[str, Any], Mapping[str, Any]]]:
        names = {id(param): name for name, param in self.params.items()}
        by_names = {tuple(sorted(group["params"])): group for group in given}
        pairs: list[tuple[dict[str, Any], Mapping[str, Any]]] = []
        for own in self.param_groups:
            of_group = tuple(sorted(names[id(param)] for param in own["params"]))
            require(of_group in by_names, "P004", "the state has no such group", params=of_group)
            found = by_names[of_group]
            same = set(own) == set(found)
            require(same, "P004", "a group has other entries", given=sorted(found), own=sorted(own))
            pairs.append((own, found))
        return pairs


def _copy_entries(own: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Set the entries of a state, tensors in place."""
    with rl.no_grad():
        for name, value in own.items():
            if isinstance(value, Tensor):
                value.copy_(values[name])
            else:
                own[name] = type(value)(values[name]) if isinstance(value, int | float) else copy.deepcopy(values[name])


class _Around(KeyedOptimizer):
    """A named optimizer that steps with another one, whose states and groups are its own."""

    def __init__(self, params: Mapping[str, Any], optimizer: Optimizer) -> None:
        super().__init__(params, optimizer.state, optimizer.param_groups)
        self._optimizer: Any = optimizer

    def inner(self) -> Sequence[Optimizer]:
        """Return the optimizer."""
        return (self._optimizer,)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients."""
        self._optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        """Step."""
        return self._optimizer.step(closure)


class KeyedOptimizerWrapper(_Around):
    """Any optimizer, with names.

    KeyedOptimizerWrapper(dict(model.named_parameters()), lambda params: rl.optim.Adagrad(params, lr=0.1))
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        optim_factory: Callable[[Any], Optimizer],
        pass_params_dict: bool = False,
    ) -> None:
        super().__init__(params, optim_factory(params if pass_params_dict else list(params.values())))


class OptimizerWrapper(_Around):
    """Base of optimizers that do something around the steps of another named one."""

    def __init__(self, optimizer: KeyedOptimizer) -> None:
        super().__init__(optimizer.params, optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Return the other's."""
        return self._optimizer.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Have the other take a state over."""
        self._optimizer.load_state_dict(state_dict)
        self.post_load_state_dict()

    def save_param_groups(self, save: bool) -> None:
        """Set whether state dicts have the groups."""
        self._optimizer.save_param_groups(save)


class CombinedOptimizer(KeyedOptimizer):
    """Several named optimizers as one; names may get a prefix each.

    CombinedOptimizer([model.fused_optimizer, ("dense", dense_optimizer)])

    A parameter that two have is A002.
    """

    def __init__(self, optims: Sequence[KeyedOptimizer | tuple[str, KeyedOptimizer]]) -> None:
        self._optims = [("", one) if isinstance(one, KeyedOptimizer) else one for one in optims]
        params: dict[str, Any] = {}
        for key, one in self._optims:
            named = {self.prepend_opt_key(name, key): param for name, param in one.params.items()}
            twice = sorted(set(named) & set(params))
            require(not twice, "A002", "Duplicate param key", names=twice)
            params |= named
        groups = [group for _, one in self._optims for group in one.param_groups]
        super().__init__(params, ChainMap(*[one.state for _, one in self._optims]), groups)
        self.defaults[_SAVES] = any(one.defaults[_SAVES] for _, one in self._optims)

    def inner(self) -> Sequence[Optimizer]:
        """Return the optimizers."""
        return [one for _, one in self._optims]

    @staticmethod
    def prepend_opt_key(name: str, opt_key: str) -> str:
        """Return the name of a parameter with the prefix of its optimizer."""
        return ".".join([part for part in (opt_key, name) if part])

    @property
    def optimizers(self) -> list[tuple[str, KeyedOptimizer]]:
        """The optimizers and their prefixes."""
        return self._optims

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients."""
        for _, one in self._optims:
            one.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> None:
        """Step with each, in order."""
        for _, one in self._optims:
            one.step(closure=closure)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all, by prefixed names."""
        parts = [(key, one.state_dict()) for key, one in self._optims]
        state = {self.prepend_opt_key(name, key): own for key, part in parts for name, own in part["state"].items()}
        made: dict[str, Any] = {"state": state}
        if self.defaults[_SAVES]:
            groups = [(key, group) for key, part in parts for group in part.get("param_groups", [])]
            made["param_groups"] = [
                {**group, "params": [self.prepend_opt_key(name, key) for name in group["params"]]}
                for key, group in groups
            ]
        return made

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Have each take its part over."""
        for key, one in self._optims:
            prefixed = {name: self.prepend_opt_key(name, key) for name in one.params}
            given = state_dict["state"]
            part: dict[str, Any] = {"state": {own: given[name] for own, name in prefixed.items() if name in given}}
            if self.defaults[_SAVES]:
                groups = state_dict["param_groups"]
                back = {name: own for own, name in prefixed.items()}
                part["param_groups"] = [
                    {**group, "params": [back[name] for name in group["params"]]}
                    for group in groups
                    if all(name in back for name in group["params"])
                ]
            one.load_state_dict(part)

    def save_param_groups(self, save: bool) -> None:
        """Set whether state dicts have the groups."""
        super().save_param_groups(save)
        for _, one in self._optims:
            one.save_param_groups(save)

    def post_load_state_dict(self) -> None:
        """Have each do what is to be done after loading."""
        for _, one in self._optims:
            one.post_load_state_dict()
