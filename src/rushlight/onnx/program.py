"""A graph as a list of steps that call rules; subgraphs are functions of the values around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rushlight.onnx.model import Array, Graph, Model, Node, OperatorName, Reference, free_names
from rushlight.onnx.registry import Operator, find, size_rule
from rushlight.onnx.values import Value, is_text, to_host, to_tensor
from rushlight.support.errors import RushlightError, error, fail, require

Store = Callable[[str, Array, bool], str]
# What rules raise where a node is malformed: an axis that is not there, operands or attributes that do not fit.
_MISFITS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_IGNORED = frozenset({"consumed_inputs"})


class Program:
    """Steps with names for inputs and outputs. `outer` are names of values that the graph around it has."""

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str], outer: frozenset[str]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.outer = outer
        self.constants: dict[str, str] = {}
        self.known: dict[str, Array] = {}
        self.numbers: dict[str, Array] = {}  # elements of small constants, for rules that want them on the host
        self.steps: list[Step] = []

    def run(self, store: Mapping[str, Value], arguments: Sequence[Value], around: Mapping[str, Value]) -> list[Value]:
        """The outputs for arguments. `store` has the constants, `around` the values of the graph around it."""
        values: dict[str, Value] = {name: around[name] for name in self.outer}
        values |= {name: store[key] for name, key in self.constants.items()}
        values |= self.known
        values.update(zip(self.inputs, arguments, strict=False))
        values[""] = None
        for step in self.steps:
            step.run(store, values)
        return [values.get(name) for name in self.outputs]


class Subgraph:
    """A subgraph while a step runs: a function of its inputs."""

    def __init__(self, program: Program, store: Mapping[str, Value], around: Mapping[str, Value]) -> None:
        self.program = program
        self.store = store
        self.around = around

    def __call__(self, *arguments: Value) -> list[Value]:
        """The outputs for arguments."""
        return self.program.run(self.store, arguments, self.around)


class Step:
    """One node: which rule it calls with which values. `dead` are the values that no later step uses."""

    def __init__(self, node: Node, attributes: Mapping[str, Value]) -> None:
        self.node = node
        self.attributes = attributes
        self.dead: tuple[str, ...] = ()

    def run(self, store: Mapping[str, Value], values: dict[str, Value]) -> None:
        """Compute the results from `values`, and put them there."""
        try:
            results = self.results(store, values)
        except RushlightError as cause:
            cause.add_note(f"in {self.node.operator} {self.node.title()} of the ONNX model")
            raise
        except _MISFITS as cause:
            where = f"{self.node.operator} {self.node.title()}"
            message = f"onnx: {where} does not fit its operands: {type(cause).__name__}: {cause}"
            raise error("O002", message, attributes=sorted(self.attributes)) from cause
        for name, result in zip(self.node.outputs, results, strict=False):
            values[name] = result
        for name in self.dead:
            values.pop(name, None)

    def results(self, store: Mapping[str, Value], values: Mapping[str, Value]) -> Sequence[Value]:
        """The results of the step."""
        raise NotImplementedError


class RuleStep(Step):
    """A step that calls an operator's rule."""

    def __init__(
        self, node: Node, attributes: Mapping[str, Value], operator: Operator, numbers: Mapping[str, Array]
    ) -> None:
        super().__init__(node, attributes)
        self.operator = operator
        self.sizes = size_rule(operator.name)
        self.given = (
            {"outputs": max([place for place, name in enumerate(node.outputs, 1) if name], default=1)}
            if operator.counted
            else {}
        )
        self.numbers = {name: numbers[name] for name in node.inputs if name in numbers}

    def results(self, store: Mapping[str, Value], values: Mapping[str, Value]) -> Sequence[Value]:
        """What the rule gives, or the rule of sizes."""
        operands = [values[name] for name in self.node.inputs]
        given = {name: _bound(value, store, values) for name, value in self.attributes.items()}
        if self.sizes is not None and _all_host(operands):
            found = self.sizes(*operands, **given)
            if found is not NotImplemented:
                return found if isinstance(found, (list, tuple)) and len(self.node.outputs) > 1 else [found]
        host = self.operator.host
        prepared = [
            (self.numbers[name] if name in self.numbers else to_host(value)) if place in host else to_tensor(value)
            for place, (name, value) in enumerate(zip(self.node.inputs, operands, strict=True))
        ]
        result = self.operator.rule(*prepared, **given, **self.given)
        return result if isinstance(result, tuple) else (result,)


class FunctionStep(Step):
    """A step that calls a function of the model."""

    def __init__(self, node: Node, program: Program) -> None:
        super().__init__(node, {})
        self.program = program

    def results(self, store: Mapping[str, Value], values: Mapping[str, Value]) -> Sequence[Value]:
        """The outputs of the function."""
        arguments = [values[name] for name in self.node.inputs]
        arguments += [None] * (len(self.program.inputs) - len(arguments))
        return self.program.run(store, arguments, {})


def _all_host(operands: Sequence[Value]) -> bool:
    arrays = [operand for operand in operands if operand is not None]
    return bool(arrays) and all(isinstance(array, np.ndarray) and not is_text(array) for array in arrays)


def _bound(value: Value, store: Mapping[str, Value], values: Mapping[str, Value]) -> Value:
    """An attribute's value for a run: a graph is a function of the values around it."""
    if not isinstance(value, Program):
        return value
    return Subgraph(value, store, {name: values[name] for name in value.outer})


class Builder:
    """Makes programs of the graphs of a model. `store` keeps a constant and gives its key."""

    def __init__(self, model: Model, store: Store) -> None:
        self.model = model
        self.store = store
        self.calling: list[OperatorName] = []

    def graph(self, graph: Graph, versions: Mapping[str, int], given: Mapping[str, object]) -> Program:
        """The program of a graph; `given` are attributes of the function that it lies in."""
        outer = frozenset(free_names(graph))
        program = Program([declared.name for declared in graph.inputs], graph.outputs, outer)
        for name, array in graph.constants.items():
            self._constant(program, name, array, trained=array.ndim > 0)
        self._steps(program, graph.nodes, versions, given)
        return program

    def _constant(self, program: Program, name: str, array: Array, trained: bool) -> None:
        """Integers of shapes and axes, and texts, stay on the host; others are tensors of the module."""
        if array.dtype.kind in "OSU" or (array.dtype.kind in "iub" and array.ndim <= 1 and array.size <= _SMALL):
            program.known[name] = array
        else:
            program.constants[name] = self.store(name, array, trained)
            if array.size <= _SMALL:
                program.numbers[name] = array

    def _steps(
        self, program: Program, nodes: Sequence[Node], versions: Mapping[str, int], given: Mapping[str, object]
    ) -> None:
        for node in nodes:
            array = _constant_of(node, given)
            if array is None:
                program.steps.append(self._step(node, versions, given, program.numbers))
            else:
                self._constant(program, node.outputs[0], array, trained=False)
        _free_early(program)

    def _step(
        self, node: Node, versions: Mapping[str, int], given: Mapping[str, object], numbers: Mapping[str, Array]
    ) -> Step:
        function = self.model.functions.get(node.operator)
        if function is not None:
            require(node.operator not in self.calling, "P002", f"onnx.load: the function {node.operator} calls itself")
            self.calling.append(node.operator)
            program = Program(function.inputs, function.outputs, frozenset())
            attributes = {**function.defaults, **_resolved(node, given)}
            self._steps(program, function.nodes, function.versions, attributes)
            self.calling.pop()
            return FunctionStep(node, program)
        operator = find(node.operator, versions.get(node.operator.domain, 1))
        assert operator is not None, "operators are looked for before programs are made"
        return RuleStep(node, self._attributes(node, operator, versions, given), operator, numbers)

    def _attributes(
        self, node: Node, operator: Operator, versions: Mapping[str, int], given: Mapping[str, object]
    ) -> dict[str, Value]:
        attributes = {name: value for name, value in _resolved(node, given).items() if name not in _IGNORED}
        unknown = sorted(attributes.keys() - operator.attributes)
        if unknown:
            fail("O002", f"onnx.load: {node.operator} {node.title()} has the attribute {unknown[0]}")
        return {
            name: self.graph(value, versions, given) if isinstance(value, Graph) else value
            for name, value in attributes.items()
        }


_SMALL = 64


def _resolved(node: Node, given: Mapping[str, object]) -> dict[str, object]:
    """A node's attributes; those that refer to the function's, and are not given, are left out."""
    found: dict[str, object] = {}
    for name, value in node.attributes.items():
        if not isinstance(value, Reference):
            found[name] = value
        elif value.name in given:
            found[name] = given[value.name]
    return found


def _constant_of(node: Node, given: Mapping[str, object]) -> Array | None:
    """The value of a node that is a constant."""
    if node.operator != OperatorName("", "Constant"):
        return None
    ((name, value),) = _resolved(node, given).items() or [("", None)]
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if name in kinds:
        return np.asarray(value, kinds[name])
    if name in ("value_string", "value_strings"):
        return np.asarray(value, dtype=object)
    if isinstance(value, np.ndarray):
        return value
    raise error("P002", f"onnx.load: the constant {node.title()} has no value")


def _free_early(program: Program) -> None:
    """Note at each step which values nothing uses later, so that they are freed."""
    alive = {*program.outputs, ""}
    for step in reversed(program.steps):
        graphs = [value for value in step.attributes.values() if isinstance(value, Program)]
        used = set(step.node.inputs).union(*[graph.outer for graph in graphs])
        step.dead = tuple(sorted((used | set(step.node.outputs)) - alive))
        alive |= used
