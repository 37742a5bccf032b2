"""Training steps that send the ids of the next batch while this one is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from rushlight.nn import Module
from rushlight.recsys.distributed.sharded import Ahead, ShardedTables
from rushlight.recsys.sparse import KeyedJaggedTensor

Batch = TypeVar("Batch")
Place = tuple[object, ...]
"""Where a batch has something: names of attributes, keys and indices, one after another."""


class TrainPipelineBase(Generic[Batch]):
    """Steps of a model that gives (loss, output) for a batch, one after another.

    output = TrainPipelineBase(model, optimizer).progress(batches)  # StopIteration after the last batch
    """

    def __init__(self, model: Module, optimizer: Any, device: object = None, **ignored: object) -> None:
        del ignored
        self._model, self._optimizer, self._device = model, optimizer, device

    def progress(self, dataloader_iter: Iterator[Batch]) -> Any:
        """Step with the next batch and return its output; a model in evaluation is only called."""
        batch = next(dataloader_iter)
        if self._model.training:
            self._optimizer.zero_grad()
        loss, output = self._model(batch)
        if self._model.training:
            loss.backward()
            self._optimizer.step()
        return output


class TrainPipelineSparseDist(Generic[Batch]):
    """Steps of a model whose next batch's ids are under way meanwhile. The model gives (loss, output) for a batch.

    Where a batch has a collection's ids is learned from the first step: they are the batch, an attribute or an entry
    of it, or of one of these. The ids of a collection that is given others are sent when it is called. Results have
    the bits of steps one after another: ids do not depend on tables.

    pipeline = TrainPipelineSparseDist(model, optimizer)
    output = pipeline.progress(batches)  # StopIteration after the last batch
    """

    def __init__(
        self, model: Module, optimizer: Any, device: object = None, execute_all_batches: bool = True, **ignored: object
    ) -> None:
        del execute_all_batches, ignored  # all batches are stepped with, in the order of the loader
        self._model, self._optimizer, self._device = model, optimizer, device
        self._collections = [one for one in model.modules() if isinstance(one, ShardedTables)]
        self._places: dict[int, Place] = {}
        self._learned = False
        self._next: tuple[Batch, list[Ahead | None]] | None = None

    def progress(self, dataloader_iter: Iterator[Batch]) -> Any:
        """Step with the next batch and return its output; a model in evaluation is only called."""
        batch, ahead = self._next or self._begun(next(dataloader_iter))
        training = self._model.training
        if training:
            self._optimizer.zero_grad()
        for collection, own in zip(self._collections, ahead, strict=True):
            collection.ahead = own
        self._next = None
        following = next(dataloader_iter, None) if self._learned else None
        if following is not None:
            self._next = self._begun(following)
        loss, output = self._model(batch)
        if self._next is not None:  # how many ids come is known: they are sent during the backward pass
            coming, under_way = self._next
            self._next = coming, [None if own is None else own.sent() for own in under_way]
        if training:
            loss.backward()
            self._optimizer.step()
        self._learn(batch)
        return output

    def _begun(self, batch: Batch) -> tuple[Batch, list[Ahead | None]]:
        """A batch, and what is under way of it for each collection."""
        ahead: list[Ahead | None] = []
        for number, collection in enumerate(self._collections):
            features = _at(batch, self._places[number]) if number in self._places else None
            ahead.append(collection.begin(features) if isinstance(features, KeyedJaggedTensor) else None)
        return batch, ahead

    def _learn(self, batch: Batch) -> None:
        if self._learned:
            return
        self._learned = True
        for number, collection in enumerate(self._collections):
            for place, value in _parts(batch, (), 2):
                if value is collection.called_with:
                    self._places[number] = place
                    break


def _entries(value: object) -> list[tuple[object, object]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple | list):
        return list(enumerate(value))
    return list(getattr(value, "__dict__", {}).items())


def _parts(value: object, place: Place, depth: int) -> Iterator[tuple[Place, object]]:
    """A batch and its parts, down to some depth, each with its place."""
    yield place, value
    if depth and not isinstance(value, KeyedJaggedTensor):
        for name, part in _entries(value):
            yield from _parts(part, (*place, name), depth - 1)


def _at(value: object, place: Place) -> object:
    """The part of a batch at a place, None if it has none."""
    for name in place:
        value = dict(_entries(value)).get(name)
    return value
