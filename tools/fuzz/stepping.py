"""Programs step by step: every statement runs on the operands that PyTorch gave, so that errors do not add up.

`traced` notes, for every statement, the operands' memory and layout before it, and results, memory or the error after
it; a trace is data, so it can be recorded and judged without PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.support.frozen import frozen
from tools.fuzz.program import DTYPES, NAME, Array, Input, Program, operands, targets
from tools.fuzz.running import Value, array_of, is_peer, leaf, values_of


@frozen(eq=False)
class View:
    """A tensor on the storage of a number: strides and offset in elements."""

    storage: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@frozen(eq=False)
class Step:
    """A statement with what it reads: `views` by name on the bytes of `before`. Then what PyTorch made of it.

    `after` has the same storages after it, `results` the values that it assigned, or that its targets' sequences hold,
    `shared` for each the storage of `before` that it lies in, or None. `error` is the class that was raised.
    """

    statement: str
    views: dict[str, View]
    before: dict[int, Array]
    after: dict[int, Array]
    results: tuple[Value, ...]
    shared: tuple[int | None, ...]
    error: str | None = None
    message: str = ""

    @property
    def writes(self) -> bool:
        """Whether the statement changed what its operands hold."""
        return any(data.tobytes() != self.after[number].tobytes() for number, data in self.before.items())

    def program(self, origin: Program) -> Program:
        """This statement alone, on inputs that are its operands. Operands no longer share storages."""
        views = self.views.values()
        inputs = [
            Input(view.dtype, view.shape, view.strides, view.offset, self.before[view.storage].view(DTYPES[view.dtype]))
            for view in views
        ]
        names = {name: f"v{index}" for index, name in enumerate(self.views)}
        names.update({name: f"v{20 + index}" for index, name in enumerate(targets(self.statement))})
        text = NAME.sub(lambda name: names.get(name[0], name[0]), self.statement)
        return Program(origin.seed, origin.number, tuple(inputs), (text,), targets(text))


class Stepper:
    """PyTorch's values of a program as its statements run."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}

    def step(self, statement: str) -> Step:
        """Runs a statement, and notes what it did."""
        names = [name for name in operands(statement) if hasattr(self.scope.get(name), "stride")]
        tensors = {name: self.scope[name] for name in names}
        keys: dict[int, int] = {}
        views = {name: _view(tensor, keys) for name, tensor in tensors.items()}
        before = {views[name].storage: storage_bytes(tensor) for name, tensor in tensors.items()}
        error: Exception | None = None
        try:
            exec(statement, self.scope)  # noqa: S102 - the generator's own text
        except Exception as raised:  # noqa: BLE001 - every error is an outcome
            error = raised
        after = {views[name].storage: storage_bytes(tensor) for name, tensor in tensors.items()}
        if error is not None:
            return Step(statement, views, before, after, (), (), type(error).__name__, str(error))
        assigned = [self.resolved(name) for name in targets(statement)]
        parts = [part for result in assigned for part in _parts(result)]
        results = tuple([value for result in assigned for value in values_of(result)])
        shared = tuple([keys.get(_key(part)) if hasattr(part, "stride") else None for part in parts])
        return Step(statement, views, before, after, results, shared)

    def resolved(self, name: str) -> Any:
        """A value without PyTorch's lazy conjugation and negation, which a storage does not show."""
        value = self.scope[name]
        if hasattr(value, "is_conj") and (value.is_conj() or value.is_neg()):
            self.scope[name] = value.resolve_conj().resolve_neg()
        return self.scope[name]


def traced(program: Program, torch: Any) -> tuple[Step, ...]:
    """The steps of a program. What it raises is part of them; later statements go on without the values."""
    stepper = Stepper(torch)
    for name, given in zip(program.parameters, program.inputs, strict=True):
        stepper.scope[name] = leaf(given, given.values.copy(), torch)
    steps: list[Step] = []
    for statement in program.statements:
        if all(name in stepper.scope for name in operands(statement)):
            steps.append(stepper.step(statement))
    return tuple(steps)


def storage_bytes(tensor: Any) -> Array:
    """A copy of all of a PyTorch tensor's storage."""
    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.element_size()
    flat = tensor.detach().as_strided((count,), (1,), 0)
    return array_of(flat).view(np.uint8).copy()


def replayed(step: Step, module: Any) -> tuple[dict[str, Any], dict[int, Array]]:
    """The names of a step's operands as tensors of a module, and the arrays that are their storages."""
    assert not is_peer(module)
    arrays = {number: data.copy() for number, data in step.before.items()}
    scope: dict[str, Any] = {"torch": module, "F": module.nn.functional}
    bases: dict[tuple[int, str], Any] = {}
    for name, view in step.views.items():
        key = (view.storage, view.dtype)
        if key not in bases:
            bases[key] = module.from_numpy(arrays[view.storage].view(DTYPES[view.dtype]))
        scope[name] = bases[key].as_strided(view.shape, view.strides, view.offset)
    return scope, arrays


def _view(tensor: Any, keys: dict[int, int]) -> View:
    number = keys.setdefault(_key(tensor), len(keys))
    dtype = str(tensor.dtype).partition(".")[2]
    return View(number, dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


def _key(tensor: Any) -> int:
    """What tells storages apart: their address, or of an empty one its object's."""
    storage = tensor.untyped_storage()
    return storage.data_ptr() or -storage._cdata


def _parts(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)) and any(hasattr(part, "stride") for part in result):
        return [one for part in result for one in _parts(part)]
    return [result]
