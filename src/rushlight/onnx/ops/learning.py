"""Operators of `ai.onnx.ml`, and steps of optimizers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import rushlight as rl
from rushlight import Tensor
from rushlight.onnx.registry import operator
from rushlight.onnx.values import Numbers, Value, to_tensor

_ML = "ai.onnx.ml"
_TRAINING = "ai.onnx.preview.training"


@operator("Binarizer", domain=_ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 where numbers exceed a threshold, else 0."""
    return (x > threshold).to(x.dtype)


@operator(
    "LabelEncoder",
    domain=_ML,
    host=(0,),
    attributes=tuple(
        [f"{part}_{kind}" for part in ("keys", "values") for kind in ("floats", "int64s", "strings", "tensor")]
        + [f"default_{kind}" for kind in ("float", "int64", "string", "tensor")]
    ),
)
def label_encoder(x: Numbers, **options: Value) -> Value:
    """Values by a table of keys."""
    keys = _first(options, "keys", ("floats", "int64s", "strings", "tensor"))
    kind = next(kind for kind in ("floats", "int64s", "strings", "tensor") if f"values_{kind}" in options)
    values = np.asarray(options[f"values_{kind}"]).reshape(-1)
    missing = {
        "floats": -0.0,
        "int64s": -1,
        "strings": "_Unused",
        "tensor": values.dtype.type(-1) if values.dtype.kind in "iu" else "_Unused",
    }[kind]
    singular = {"floats": "float", "int64s": "int64", "strings": "string", "tensor": "tensor"}[kind]
    default = np.asarray(options.get(f"default_{singular}", missing)).reshape(-1)[0]
    table = {
        _key(key): value for key, value in zip(np.asarray(keys).reshape(-1).tolist(), values.tolist(), strict=True)
    }
    found = [table.get(_key(key), default) for key in x.reshape(-1).tolist()]
    dtype: Value = {"floats": np.float32, "int64s": np.int64, "strings": object, "tensor": values.dtype}[kind]
    return to_tensor(np.asarray(found, dtype=dtype).reshape(x.shape))


def _key(key: Value) -> Value:
    return "nan" if key != key else key


def _first(options: dict[str, Value], part: str, kinds: Sequence[str]) -> Value:
    return next(options[f"{part}_{kind}"] for kind in kinds if f"{part}_{kind}" in options)


@operator("TreeEnsemble", domain=_ML, host=(0,))
def tree_ensemble(
    x: Numbers,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: Numbers,
    membership_values: Numbers | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: Numbers | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: Numbers,
    nodes_splits: Numbers,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Tensor:
    """The sums, means or extremes of the leaves of trees."""
    members = _members(nodes_modes, membership_values)
    results = np.zeros((x.shape[0], n_targets))
    for row, features in enumerate(x):
        reached: list[list[float]] = [[] for _ in range(n_targets)]
        for root in tree_roots:
            node, leaf = root, False
            while not leaf:
                value, split = features[nodes_featureids[node]], nodes_splits[node]
                lost = (
                    bool(nodes_missing_value_tracks_true) and nodes_missing_value_tracks_true[node] and np.isnan(value)
                )
                taken = lost or _decide(int(nodes_modes[node]), value, split, members.get(node, ()))
                leaf = bool(nodes_trueleafs[node] if taken else nodes_falseleafs[node])
                node = nodes_truenodeids[node] if taken else nodes_falsenodeids[node]
            reached[leaf_targetids[node]].append(float(leaf_weights[node]))
        aggregate = (np.mean, np.sum, np.min, np.max)[aggregate_function]
        results[row] = [aggregate(part) if part else 0.0 for part in reached]
    return to_tensor(results.astype(x.dtype))


def _decide(mode: int, value: Value, split: Value, members: Sequence[float]) -> bool:
    if mode == 6:
        return float(value) in members
    tests = (value <= split, value < split, value >= split, value > split, value == split, value != split)
    return bool(tests[mode])


def _members(modes: Numbers, values: Numbers | None) -> dict[int, tuple[float, ...]]:
    """The values of each node that asks for membership; NaN ends those of a node."""
    groups: list[tuple[float, ...]] = []
    group: list[float] = []
    for value in [] if values is None else values.tolist():
        if value != value:
            groups.append(tuple(group))
            group = []
        else:
            group.append(value)
    places = [place for place, mode in enumerate(modes.tolist()) if mode == 6]
    return dict(zip(places, groups, strict=False))


def _each(tensors: Sequence[Tensor], parts: int) -> list[tuple[Tensor, ...]]:
    """Operands come by kind: all weights, all gradients, and so on."""
    count = len(tensors) // parts
    return [tuple(tensors[place::count]) for place in range(count)]


def _grouped(results: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple([part for kind in zip(*results, strict=True) for part in kind])


@operator("Adagrad", domain=_TRAINING)
def adagrad(
    rate: Tensor,
    step: Tensor,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    """A step of Adagrad: new weights, then new sums of squares."""
    rate = rate / (1 + step * decay_factor)
    results: list[tuple[Tensor, ...]] = []
    for weight, gradient, squares in _each(tensors, 3):
        gradient = gradient + norm_coefficient * weight
        squares = squares + gradient * gradient
        results.append(((weight - rate * gradient / (squares.sqrt() + epsilon)).to(weight.dtype), squares))
    return _grouped(results)


@operator("Adam", domain=_TRAINING)
def adam(
    rate: Tensor,
    step: Tensor,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-8,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    """A step of Adam: new weights, then new means, then new means of squares."""
    fraction = rl.sqrt(1 - beta ** step.float()) / (1 - alpha ** step.float())
    rate = rl.where(step > 0, rate * fraction, rate)
    results: list[tuple[Tensor, ...]] = []
    for weight, gradient, means, squares in _each(tensors, 4):
        gradient = gradient + norm_coefficient * weight
        means = alpha * means + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * gradient * gradient
        moved = weight - rate * means / (squares.sqrt() + epsilon)
        results.append((((1 - norm_coefficient_post) * moved).to(weight.dtype), means, squares))
    return _grouped(results)


@operator("Momentum", domain=_TRAINING)
def momentum(
    rate: Tensor, step: Tensor, *tensors: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> tuple[Tensor, ...]:
    """A step with momentum: new weights, then new velocities."""
    results: list[tuple[Tensor, ...]] = []
    for weight, gradient, velocity in _each(tensors, 3):
        gradient = gradient + norm_coefficient * weight
        scale = rl.where(step > 0, rl.full((), beta), rl.ones(()))
        velocity = alpha * velocity + scale * gradient
        change = gradient + alpha * velocity if mode == "nesterov" else velocity
        results.append(((weight - rate * change).to(weight.dtype), velocity.to(weight.dtype)))
    return _grouped(results)
