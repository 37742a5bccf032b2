"""Modules that answer requests: what they are asked, and what they make of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Module
from rushlight.recsys.configs import DataType
from rushlight.recsys.inference.requests import Answer, Inputs, Ragged, Request
from rushlight.recsys.modules import EmbeddingBagCollection, EmbeddingCollection
from rushlight.recsys.quant import QuantEmbeddingBagCollection, QuantEmbeddingCollection, QuantTables
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen


@frozen
class BatchingMetadata:
    """How examples of an input are joined: `dense` rows one after the other, `sparse` ones feature by feature."""

    type: str
    device: str = "cpu"


class PredictModule(Module):
    """A module that answers requests. It is called with its dense inputs, in order, and with all ids as one tensor.

    `features` are the numbers of rows of the features' tables, `dense` the widths of dense inputs. A subclass may have
    a `predict_forward` of its own.

    PredictModule(model, {"user": 1000, "item": 50}, {"float_features": 13})
    """

    def __init__(
        self, module: Callable[..., Any], features: Mapping[str, int], dense: Mapping[str, int] | None = None
    ) -> None:
        super().__init__()
        self.predict_module = module
        self.inputs = Inputs(dict(features), dict(dense or {}))

    @staticmethod
    def of_tables(tables: QuantTables, compiled: bool = True) -> PredictModule:
        """Return what looks up rows of a collection."""
        features: dict[str, int] = {}
        for table in tables.configs():
            for name in table.feature_names:
                features[name] = min(features.get(name, table.num_embeddings), table.num_embeddings)
        return PredictModule(rl.compile(tables) if compiled else tables, features)

    def batching_metadata(self) -> dict[str, BatchingMetadata]:
        """Return how each input is joined."""
        kinds = [(name, "dense") for name in self.inputs.dense] + [(name, "sparse") for name in self.inputs.features]
        return {name: BatchingMetadata(kind) for name, kind in kinds}

    def predict_forward(self, dense: Mapping[str, Tensor], features: KeyedJaggedTensor) -> object:
        """Return the results of a batch: tensors with a row for each example, alone or by name."""
        return self.predict_module(*dense.values(), features)

    def forward(self, request: Request) -> Answer:
        """Return the answer to a request, or to several that were joined."""
        parts = list(request.features.values())
        none = np.zeros(0, np.int64)
        ids = KeyedJaggedTensor(
            list(request.features),
            rl.from_numpy(np.concatenate([none, *[part.values for part in parts]])),
            lengths=rl.from_numpy(np.concatenate([none, *[part.lengths for part in parts]])),
        )
        dense = {name: rl.from_numpy(rows) for name, rows in request.dense.items()}
        with rl.inference_mode():
            return _answer(self.predict_forward(dense, ids))


def _answer(results: object) -> Answer:
    if isinstance(results, KeyedTensor):
        return {name: _array(part) for name, part in results.to_dict().items()}
    if isinstance(results, Mapping):
        return {str(name): _array(part) for name, part in results.items()}
    if isinstance(results, tuple | list):
        return {str(place): _array(part) for place, part in enumerate(results)}
    return {"output": _array(results)}


def _array(result: object) -> Any:
    if isinstance(result, JaggedTensor):
        return Ragged(_array(result.values()), _array(result.lengths()))
    if not isinstance(result, Tensor):
        fail("A001", "a predict module gives tensors, alone or by name", given=type(result).__name__)
    return result.detach().float().numpy() if result.dtype.is_floating_point else result.numpy()


def quantize_inference_model(model: Module, data_type: DataType = DataType.INT8) -> Module:
    """Return the model with the tables of its collections in a smaller type. The model itself is changed.

    quantize_inference_model(model, DataType.INT4)
    """
    if isinstance(model, EmbeddingBagCollection):
        return QuantEmbeddingBagCollection.from_float(model, data_type)
    if isinstance(model, EmbeddingCollection):
        return QuantEmbeddingCollection.from_float(model, data_type)
    for name, child in list(model.named_children()):
        small = quantize_inference_model(child, data_type)
        if small is not child:
            setattr(model, name, small)
    return model
