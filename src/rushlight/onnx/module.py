"""OnnxModule: a model as a module, with its initialisers as parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import rushlight as rl
from rushlight.nn import Module, Parameter
from rushlight.onnx.checking import require_operators
from rushlight.onnx.model import Array, Model
from rushlight.onnx.program import Builder
from rushlight.onnx.values import Value, is_text, to_tensor
from rushlight.support.errors import require


class OnnxModule(Module):
    """Runs a model. Arguments come in the order of the model's inputs, or by name.

    The result is one value, or a tuple where the model has several outputs. Initialisers of floats are parameters,
    others buffers, by their names in the model; sizes and axes are constants. Texts are numpy arrays of objects.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        require_operators(model)
        self.input_names = tuple(declared.name for declared in model.graph.inputs)
        self.input_shapes = {declared.name: declared.shape for declared in model.graph.inputs}
        self.output_names = model.graph.outputs
        self._places: dict[str, tuple[Module, str]] = {}
        self._program = Builder(model, self._keep).graph(model.graph, model.versions, {})

    def _keep(self, name: str, array: Array, trained: bool) -> str:
        """Register a constant, and return its key."""
        tensor = rl.from_numpy(np.array(array))
        key = name if name and name not in self._places else f"{name or 'constant'}_{len(self._places)}"
        owner, last = self._owner(key)
        if trained and tensor.is_floating_point() and tensor.dtype.bits > 8:
            owner.register_parameter(last, Parameter(tensor))
        else:
            owner.register_buffer(last, tensor)
        self._places[key] = owner, last
        return key

    def _owner(self, key: str) -> tuple[Module, str]:
        """The module that owns a tensor of this name, made on demand, and the tensor's name there."""
        *path, last = key.split(".")
        owner: Module = self
        for part in path:
            child = owner._modules.get(part)
            if not part or (child is None and hasattr(owner, part)):
                return self, key.replace(".", "_")
            if child is None:
                child = Module()
                owner.add_module(part, child)
            owner = child
        return (self, key.replace(".", "_") + "_") if not last or hasattr(owner, last) else (owner, last)

    def forward(self, *args: object, **kwargs: object) -> object:
        """The outputs of the model."""
        arguments = self._arguments(args, kwargs)
        store = {key: getattr(owner, last) for key, (owner, last) in self._places.items()}
        results = [to_tensor(value) for value in self._program.run(store, arguments, {})]
        return results[0] if len(results) == 1 else tuple(results)

    def _arguments(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> list[Value]:
        names = self.input_names
        unknown = [name for name in kwargs if name not in names]
        require(
            len(args) <= len(names) and not unknown,
            "A001",
            f"onnx: the model has the inputs {', '.join(names)}",
            given=[*(f"{len(args)} in order",), *kwargs],
        )
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        missing = [name for name in names if name not in values]
        require(not missing, "A001", f"onnx: the argument '{next(iter(missing), '')}' is missing", inputs=list(names))
        return [_argument(values[name]) for name in names]

    def extra_repr(self) -> str:
        """The inputs and outputs."""
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"


def _argument(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_argument(part) for part in value]
    return to_tensor(value) if isinstance(value, np.ndarray) and not is_text(value) else value
