"""What prepares the ids of features before their rows are pooled: weights by position.

Processors are modules; their parameters are trained with the dense part of a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Module, Parameter, ParameterDict
from rushlight.ops.ragged import ids_within, segment_numbers
from rushlight.recsys.sparse import JaggedTensor, KeyedJaggedTensor
from rushlight.recsys.sparse.segments import prefix_sums
from rushlight.support.errors import require


class FeatureProcessor(Module):
    """Base of modules that take the rows of one feature, and give them with weights."""

    def forward(self, features: JaggedTensor) -> JaggedTensor:
        """Return the rows with weights."""
        raise NotImplementedError


class FeatureProcessorsCollection(Module):
    """Base of modules that take the rows of all features, and give them with weights."""

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Return the rows with weights."""
        raise NotImplementedError


class PositionWeightedModule(FeatureProcessor):
    """Weighs each id by its place in its row. Weights begin with 1.

    Rows have at most `max_feature_length` ids: E006 for longer ones.

    PositionWeightedModule(10)(features["words"]).weights()
    """

    def __init__(self, max_feature_length: int, device: Any = None) -> None:
        super().__init__()
        _require_length("PositionWeightedModule", max_feature_length)
        self.position_weight = Parameter(rl.ones(max_feature_length, device=device))

    def reset_parameters(self) -> None:
        """Set all weights to 1."""
        with rl.no_grad():
            self.position_weight.fill_(1.0)

    def forward(self, features: JaggedTensor) -> JaggedTensor:
        """Return the rows with weights."""
        ids, offsets = features.values(), features.offsets()
        limits = rl.tensor([self.position_weight.shape[0]])
        places = ids_within(_places(ids, offsets), ids.new_zeros(1), limits)
        return JaggedTensor.of_parts((ids, self.position_weight[places], features.lengths_or_none(), offsets))


class PositionWeightedModuleCollection(FeatureProcessorsCollection):
    """Weighs each id by its place in its row, with weights of each feature's own; they begin with 1.

    `max_feature_lengths` has the most ids that a row of a feature has: E006 for longer rows. The ids of features that
    it lacks have the weight 1.

    PositionWeightedModuleCollection({"words": 10})(features).weights()
    """

    def __init__(self, max_feature_lengths: Mapping[str, int], device: Any = None) -> None:
        super().__init__()
        self.max_feature_lengths = dict(max_feature_lengths)
        self.position_weights = ParameterDict()
        for key, length in self.max_feature_lengths.items():
            _require_length(f"feature {key!r}", length)
            self.position_weights[key] = Parameter(rl.ones(length, device=device))

    def reset_parameters(self) -> None:
        """Set all weights to 1."""
        with rl.no_grad():
            for weight in self.position_weights.values():
                weight.fill_(1.0)

    def forward(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """Return the rows with weights."""
        ids, offsets, starts = features.values(), features.offsets(), features.key_offsets()
        places = _places(ids, offsets)
        weights: list[Tensor] = []
        limits: list[int] = []
        one = rl.ones(1)
        keys = features.keys()
        for key in keys:
            own = self.position_weights[key] if key in self.max_feature_lengths else None
            limits.append(_ANY_LENGTH if own is None else own.shape[0])
            weights.append(one if own is None else own)
        *firsts, _ = prefix_sums([part.shape[0] for part in weights])
        known = ids_within(places, starts, rl.tensor(limits, dtype=rl.int64))
        feature = segment_numbers(starts, ids.shape[0])
        weighed = rl.tensor([limit != _ANY_LENGTH for limit in limits])[feature]
        rows = rl.tensor(firsts, dtype=rl.int64)[feature] + rl.where(weighed, known, 0)
        given = rl.cat(weights)[rows] if weights else rl.ones(0)
        return features.with_weights(given)


_ANY_LENGTH = 2**62


def _require_length(what: str, length: int) -> None:
    fits = isinstance(length, int) and length >= 1
    require(fits, "E001", f"{what}: the greatest length of a row is a positive integer", length=length)


def _places(ids: Tensor, offsets: Tensor) -> Tensor:
    """The place of each id in its row."""
    count = ids.shape[0]
    return rl.arange(count, device=ids.device) - offsets.long()[segment_numbers(offsets, count)]
