"""Models with collections as exported programs: batches have open sizes, collections are modules again.

A collection is one call of the program's graph. Its tables' descriptions go along, so that a loaded program has the
collection in its place, which a plan divides among ranks as it did before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO

import rushlight as rl
from rushlight import Tensor
from rushlight.export import Dim, ExportedProgram, export, load, save
from rushlight.export.module import ExportedModule
from rushlight.nn import Module
from rushlight.recsys.configs import BaseEmbeddingConfig
from rushlight.recsys.descriptions import read_tables, tables_text
from rushlight.recsys.lookups import (
    KINDS,
    OPERATORS,
    Collection,
    answered,
    flag_of,
    kind_of,
    restored,
    single_calls,
    tables_of,
)
from rushlight.recsys.modules.tables import Slots
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import error, fail, require
from rushlight.support.frozen import frozen

_ENTRY = "embeddings.json"
_ROOT = "module"


@frozen
class Argument:
    """A tensor, or with keys a jagged one: its values, its lengths, and weights if it has them."""

    keys: tuple[str, ...] | None = None
    weighted: bool = False

    @staticmethod
    def of(value: object) -> Argument:
        """Return what an example is. C035 for other values than tensors, and for batches of several sizes."""
        if isinstance(value, Tensor):
            return Argument()
        hint = "a model takes tensors, and jagged tensors whose keys have one batch"
        if not isinstance(value, KeyedJaggedTensor) or value.variable_stride_per_key():
            fail("C035", f"export_model: an argument is a {type(value).__name__}", hint=hint)
        return Argument(tuple(value.keys()), value.weights_or_none() is not None)

    def parts(self, value: Any) -> list[Tensor]:
        """Return the tensors that an argument is made of."""
        if self.keys is None:
            return [value]
        given = isinstance(value, KeyedJaggedTensor) and tuple(value.keys()) == self.keys
        require(given, "C022", "the call does not fit what was exported: other keys", keys=self.keys)
        weights = [value.weights()] if self.weighted else []
        return [value.values(), value.lengths(), *weights]

    def made(self, tensors: Iterator[Tensor]) -> Tensor | KeyedJaggedTensor:
        """Return the argument of the next tensors."""
        if self.keys is None:
            return next(tensors)
        values, lengths = next(tensors), next(tensors)
        weights = next(tensors) if self.weighted else None
        return KeyedJaggedTensor(self.keys, values, weights, lengths)

    def sizes(self, value: Any, batch: Any, name: str, examples: int) -> list[dict[int, Any]]:
        """Return the open sizes of its tensors: those of the batch, and how many ids there are."""
        if self.keys is None:
            shape = value.shape
            return [{0: batch} if len(shape) and shape[0] == examples else {}]
        count = Dim(f"{name}_values")
        lengths = batch if len(self.keys) == 1 else len(self.keys) * batch
        return [{0: count}, {0: lengths}, *([{0: count}] if self.weighted else [])]


@frozen
class Described:
    """What the graph does not say: how arguments and the result are made of tensors, and the tables of collections."""

    arguments: tuple[Argument, ...]
    result: object
    """What the result is made of: see `_outline`."""
    collections: Mapping[str, tuple[str, str, bool]]
    """Class, tables as text, and whether rows have weights or ids go along, by the collection's path."""

    def text(self) -> str:
        """Return it as JSON."""
        arguments = [{"keys": one.keys, "weighted": one.weighted} for one in self.arguments]
        return json.dumps({"arguments": arguments, "result": self.result, "collections": self.collections}, indent=1)

    @staticmethod
    def parse(text: str) -> Described:
        """Return what a text says. P002 where it says something else."""
        try:
            whole = json.loads(text)
            arguments = [
                Argument(None if one["keys"] is None else tuple(map(str, one["keys"])), bool(one["weighted"]))
                for one in whole["arguments"]
            ]
            collections = {
                str(path): (str(kind), str(own), bool(flag)) for path, (kind, own, flag) in whole["collections"].items()
            }
            result = whole["result"]
        except (ValueError, KeyError, TypeError, AttributeError) as cause:
            raise error("P002", "load_model: the description of embeddings is damaged", entry=_ENTRY) from cause
        return Described(tuple(arguments), result, collections)


class _Flat(Module):
    """A model as a function of tensors."""

    def __init__(self, module: Module, arguments: Sequence[Argument]) -> None:
        super().__init__()
        self.module, self._arguments = module, tuple(arguments)

    def forward(self, *tensors: Tensor) -> object:
        """Call the model."""
        given = iter(tensors)
        return _plain(self.module(*[argument.made(given) for argument in self._arguments]))


def _plain(result: Any) -> object:
    """A result of tensors alone, in the containers that there were."""
    if isinstance(result, KeyedTensor):
        return result.values()
    if isinstance(result, JaggedTensor):
        return [part for part in (result.values(), result.lengths(), result.weights_or_none()) if part is not None]
    if isinstance(result, dict):
        return {name: _plain(part) for name, part in result.items()}
    return type(result)([_plain(part) for part in result]) if type(result) in (list, tuple) else result


def _outline(result: Any) -> object:
    """What a result is made of, as JSON: a KeyedTensor its keys and columns, a JaggedTensor True, containers theirs."""
    if isinstance(result, KeyedTensor):
        return {"keyed": list(zip(result.keys(), result.length_per_key(), strict=True))}
    if isinstance(result, JaggedTensor):
        return True
    if isinstance(result, dict):
        return {"parts": {name: _outline(part) for name, part in result.items()}}
    return [_outline(part) for part in result] if type(result) in (list, tuple) else None


def _rebuilt(outline: Any, value: Any) -> object:
    """The result of which `value` is the plain form."""
    if outline is True:
        values, lengths, *weights = value
        return JaggedTensor.of_parts((values, weights[0] if weights else None, lengths, None))
    if isinstance(outline, dict) and "keyed" in outline:
        keys, columns = zip(*outline["keyed"], strict=True)
        return KeyedTensor(keys, columns, value)
    if isinstance(outline, dict):
        return {name: _rebuilt(part, value[name]) for name, part in outline["parts"].items()}
    if isinstance(outline, list):
        return type(value)([_rebuilt(part, one) for part, one in zip(outline, value, strict=True)])
    return value


class ModelProgram:
    """A model as an exported program, and how arguments, result and collections are made of tensors."""

    def __init__(self, program: ExportedProgram, described: Described) -> None:
        self.program, self.described = program, described

    def module(self) -> RestoredModule:
        """Return a module that is called as the model was, with its collections restored."""
        return RestoredModule(self.program, self.described)


def export_model(model: Module, args: tuple[Tensor | KeyedJaggedTensor, ...]) -> ModelProgram:
    """Return a model as a program for batches of any size, with any number of ids.

    Each collection is one call of its graph. Tensors whose first dim is the example's batch have an open one.

    program = export_model(model, (dense, ids))
    save_model(program, "model.safetensors")
    """
    arguments = [Argument.of(value) for value in args]
    examples = next((value.stride() for value in args if isinstance(value, KeyedJaggedTensor)), -1)
    batch = Dim("batch")
    sizes = [
        part
        for place, (argument, value) in enumerate(zip(arguments, args, strict=True))
        for part in argument.sizes(value, batch, f"in{place}", examples)
    ]
    tensors = [part for argument, value in zip(arguments, args, strict=True) for part in argument.parts(value)]
    with rl.no_grad():
        result = model(*args)
    with single_calls(model):
        program = export(_Flat(model, arguments), tuple(tensors), dynamic_shapes=tuple(sizes))
    return ModelProgram(program, Described(tuple(arguments), _outline(result), dict(_collections(model))))


def _collections(model: Module) -> Iterator[tuple[str, tuple[str, str, bool]]]:
    """The collections by path. Each result is a feature of its own, since a graph's call has the ids of each."""
    for path, one in model.named_modules():
        if isinstance(one, Collection):
            tables = tables_of(one)
            slots = Slots(tables)
            pairs = list(zip(slots.tables, slots.names, strict=True))
            own = [
                replace(table, feature_names=[name for place, name in pairs if place == number])
                for number, table in enumerate(tables)
            ]
            yield (f"{_ROOT}.{path}" if path else _ROOT), (kind_of(one), tables_text(own), flag_of(one))


def save_model(program: ModelProgram, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Write a program and the descriptions of its tables to one safetensors file."""
    save(program.program, f, extra_files={_ENTRY: program.described.text()})


def load_model(f: str | os.PathLike[str] | BinaryIO) -> ModelProgram:
    """Read what `save_model` wrote. P005 where the file holds something else.

    model = DistributedModelParallel(load_model("model.safetensors").module(), plan=plan)
    """
    extra = {_ENTRY: ""}
    program = load(f, extra_files=extra)
    require(extra[_ENTRY], "P005", "load_model: the program was not written by save_model")
    return ModelProgram(program, Described.parse(extra[_ENTRY]))


class RestoredModule(ExportedModule):
    """Runs an exported model whose collections are modules again, at their paths under `module`.

    What is put in place of a collection, as one whose tables are divided, answers in its stead.
    """

    def __init__(self, program: ExportedProgram, described: Described) -> None:
        super().__init__(program)
        self.described = described
        for path, (kind, text, flag) in described.collections.items():
            self._restore(path, kind, read_tables(text), flag)

    def _restore(self, path: str, kind: str, tables: Sequence[BaseEmbeddingConfig], flag: bool) -> None:
        require(kind in KINDS, "P002", "load_model: there is no such collection", kind=kind)
        names = [name for name in self.state_dict() if name.startswith(f"{path}.")]
        keys = tuple(Slots(tables).names)
        answer = partial(answered, partial(self.get_submodule, path), kind, keys)
        self._answer(path, names, OPERATORS[KINDS[kind]], answer)
        state = {name.removeprefix(f"{path}."): self.withhold(name) for name in names}
        self._put(path, restored(kind, tables, flag, state))

    def _answer(self, path: str, names: Sequence[str], op: str, answer: Callable[..., Any]) -> None:
        """Have the lookup of some tables answered, a call of `op`. P005 where another call reads them."""
        pairs = zip(self.program.graph.parameters, self.program.inputs, strict=True)
        known = {id(call) for call, source in pairs if source.target in names}
        for call in self.program.graph.calls:
            is_lookup = call.op.name == op
            if is_lookup and {id(table) for table in call.operands[0]} <= known:
                self.answers[id(call)] = answer
            else:
                reads = [operand for operand in call.inputs() if id(operand) in known]
                message = f"load_model: the tables of {path!r} are read by another call than their lookup"
                require(not reads, "P005", message, call=call.op.name)

    def _put(self, path: str, collection: Module) -> None:
        *parents, last = path.split(".")
        setattr(self.get_submodule(".".join(parents)), last, collection)

    def forward(self, *args: object, **kwargs: object) -> object:
        """Call the model. C022 where the arguments do not fit it."""
        arguments = self.described.arguments
        fits = not kwargs and len(args) == len(arguments)
        require(fits, "C022", f"the model takes {len(arguments)} positional arguments", given=len(args))
        parts = [part for argument, value in zip(arguments, args, strict=True) for part in argument.parts(value)]
        return _rebuilt(self.described.result, super().forward(*parts))
