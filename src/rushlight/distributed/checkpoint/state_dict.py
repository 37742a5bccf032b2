"""States of models and optimizers by the names of parameters, whatever divides them: PyTorch's names.

A checkpoint of these is read by any number of ranks and under any wrapper: names are those of the plain model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.distributed.group import is_initialized, member
from rushlight.distributed.objects import broadcast_object_list
from rushlight.distributed.tensor.dtensor import DTensor, divided_as
from rushlight.eager.creation import zeros_like
from rushlight.eager.pytree import map_tree
from rushlight.eager.tensor import Tensor
from rushlight.nn.modules.module import Module
from rushlight.optim.optimizer import Optimizer
from rushlight.support.errors import fail, require

State = dict[str, Any]
Optimizers = Optimizer | Iterable[Optimizer]


@dataclass(frozen=True, slots=True)
class StateDictOptions:
    """How states are given and taken.

    With `full_state_dict` tensors are whole, with `cpu_offload` on the CPU as well, and with `broadcast_from_rank0` the
    first rank's state is taken by all. Not `strict`: names that one side lacks are passed over.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False

    def __post_init__(self) -> None:
        flat = self.flatten_optimizer_state_dict or not self.keep_submodule_prefixes
        require(not flat, "A006", "StateDictOptions: an option is not supported", options=self)


def get_model_state_dict(model: Module, *, submodules: object = None, options: StateDictOptions | None = None) -> State:
    """Return a model's state by the names that the plain model has."""
    require(submodules is None, "A006", "get_model_state_dict: submodules are not supported")
    options = options or StateDictOptions()
    plain = _plain(model)
    frozen = {name for name, one in plain.named_parameters() if not one.requires_grad}
    left_out = frozen if options.ignore_frozen_params else set[str]()
    return {name: _given(value, options) for name, value in plain.state_dict().items() if name not in left_out}


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizers, *, submodules: object = None, options: StateDictOptions | None = None
) -> State:
    """Return the state of optimizers with the names of parameters in the place of their numbers.

    Of an optimizer that has made no step it is what the first step begins with, so that there is a state to load into.
    """
    require(submodules is None, "A006", "get_optimizer_state_dict: submodules are not supported")
    options = options or StateDictOptions()
    names = {one: name for name, one in _plain(model).named_parameters()}
    state: State = {}
    groups: list[State] = []
    for optimizer in _listed(optimizers):
        found = _state_of(optimizer)
        named = [names[one] for group in optimizer.param_groups for one in group["params"]]
        state.update({named[number]: _given(entry, options) for number, entry in found["state"].items()})
        groups += [
            {**group, "params": [named[number] for number in group["params"]]} for group in found["param_groups"]
        ]
    return {"state": state, "param_groups": groups}


def get_state_dict(
    model: Module, optimizers: Optimizers, *, submodules: object = None, options: StateDictOptions | None = None
) -> tuple[State, State]:
    """Return the states of a model and of its optimizers."""
    found = get_model_state_dict(model, submodules=submodules, options=options)
    return found, get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options)


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> object:
    """Let a model take a state over; whole tensors are divided as the model's are.

    A model without data, made on the device `meta`, gets the tensors themselves.
    """
    options = options or StateDictOptions()
    plain = _plain(model)
    own = plain.state_dict()
    state = {name: _taken(value, own.get(name)) for name, value in _of_first(dict(model_state_dict), options).items()}
    without_data = any(isinstance(one, Tensor) and one.is_meta for one in own.values())
    return plain.load_state_dict(state, strict=options.strict, assign=without_data)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Let optimizers take a state over that names parameters. Errors: A007 for a parameter without hyperparameters."""
    options = options or StateDictOptions()
    parameters = dict(_plain(model).named_parameters())
    names = {one: name for name, one in parameters.items()}
    given = _of_first(dict(optim_state_dict), options)
    home = {name: group for group in given["param_groups"] for name in group["params"]}
    for optimizer in _listed(optimizers):
        named = [[names[one] for one in group["params"]] for group in optimizer.param_groups]
        flat = [name for group in named for name in group]
        missing = [name for name in flat if name not in home]
        if missing and options.strict:
            fail("A007", "set_optimizer_state_dict: there is no state of some parameters", missing=missing[:5])
        numbers = {name: number for number, name in enumerate(flat)}
        groups: list[State] = []
        for group, mine in zip(optimizer.param_groups, named, strict=True):
            known = next((home[name] for name in mine if name in home), group)
            groups.append({**dict(known), "params": [numbers[name] for name in mine]})
        state = {
            number: {key: _taken(value, parameters[name]) for key, value in given["state"][name].items()}
            for name, number in numbers.items()
            if name in given["state"]
        }
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def set_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> object:
    """Let a model and its optimizers take their states over."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


def _state_of(optimizer: Optimizer) -> State:
    """An optimizer's state dict; before its first step with the states that this one would make."""
    pairs = [(one, group) for group in optimizer.param_groups for one in group["params"] if one.requires_grad]
    begun = {} if optimizer.state else {one: optimizer.init_state(one, group) for one, group in pairs}
    optimizer.state.update(begun)
    try:
        return optimizer.state_dict()
    finally:
        for one in begun:
            del optimizer.state[one]


def _init_optim_state(optim: Optimizer) -> None:
    """Let an optimizer that has made no step make its state, by one that changes nothing: a state to load into.

    Errors: A002 where parameters have gradients.
    """
    if optim.state:
        return
    parameters = [one for group in optim.param_groups for one in group["params"] if one.requires_grad]
    require(all(one.grad is None for one in parameters), "A002", "_init_optim_state: parameters have gradients")
    for one in parameters:
        one.grad = zeros_like(one)
    rates = [group["lr"] for group in optim.param_groups]
    for group in optim.param_groups:
        group["lr"] = group["lr"] * 0
    try:
        optim.step()
    finally:
        for group, rate in zip(optim.param_groups, rates, strict=True):
            group["lr"] = rate
        optim.zero_grad(set_to_none=True)


def _plain(model: Module) -> Module:
    """The model in what wraps it: its names are those of the state."""
    while getattr(model, "wraps_model", False):
        model = model.module
    return model


def _listed(optimizers: Optimizers) -> Sequence[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _given(value: Any, options: StateDictOptions) -> Any:
    """A value as the options want it."""

    def leaf(one: Any) -> Any:
        if not isinstance(one, Tensor):
            return one
        whole = one.full_tensor() if options.full_state_dict and isinstance(one, DTensor) else one
        return whole.cpu() if options.cpu_offload and not isinstance(whole, DTensor) else whole

    return map_tree(leaf, value)


def _taken(value: Any, like: object) -> Any:
    """A whole tensor of a divided one's shape, divided as that is."""
    fits = isinstance(like, DTensor) and isinstance(value, Tensor) and value.shape == like.shape
    if not fits or isinstance(value, DTensor):
        return value
    assert isinstance(like, DTensor)
    return divided_as(value.detach(), like._spec)


def _of_first(state: State, options: StateDictOptions) -> State:
    """The state of the first rank, where the options say so."""
    if not (options.broadcast_from_rank0 and is_initialized()):
        return state
    values = [state if member(None).rank == 0 else None]
    broadcast_object_list(values, src=0)
    (found,) = values
    assert isinstance(found, dict)
    return found
