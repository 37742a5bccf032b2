"""Requests are checked, joined into batches, answered, and taken apart again."""

import threading
import time

import numpy as np
import pytest

import rushlight as rl
from rushlight.recsys import EmbeddingBagCollection, EmbeddingBagConfig, EmbeddingCollection, EmbeddingConfig
from rushlight.recsys.inference import Batcher, Inputs, PredictModule, Ragged, Request, quantize_inference_model
from rushlight.recsys.quant import QuantEmbeddingBagCollection, QuantEmbeddingCollection

INPUTS = Inputs({"a": 6, "b": 9}, {"x": 2})


def given(rng: np.random.Generator, examples: int) -> dict:
    features = {
        name: [rng.integers(0, limit, rng.integers(0, 4)).tolist() for _ in range(examples)]
        for name, limit in INPUTS.features.items()
    }
    return {"features": features, "dense": {"x": rng.standard_normal((examples, 2)).tolist()}}


def predict() -> PredictModule:
    """Sums of rows beside the dense input."""
    rl.manual_seed(0)
    configs = [EmbeddingBagConfig(limit, 4, name, feature_names=[name]) for name, limit in INPUTS.features.items()]
    tables = EmbeddingBagCollection(configs)
    return PredictModule(lambda x, ids: {"x": x, **tables(ids).to_dict()}, INPUTS.features, INPUTS.dense)


def answers(found: dict) -> dict:
    return {name: rows.tolist() for name, rows in found.items()}


def test_answers_are_those_of_each_request_alone():
    rng, module = np.random.default_rng(0), predict()
    requests = [INPUTS.request(given(rng, count)) for count in (1, 3, 0, 2, 7, 1)]
    sizes = []
    batcher = Batcher(module, max_batch=8, max_delay=0.05, on_batch=lambda examples, seconds: sizes.append(examples))
    promises = [batcher.submit(request) for request in requests]
    found = [promise.result(60) for promise in promises]
    batcher.close()
    assert sizes == [6, 8]
    for request, answer in zip(requests, found, strict=True):
        assert answers(answer) == answers(module(request))
        assert all(len(rows) == request.examples for rows in answer.values())


def test_a_request_that_fails_leaves_the_others_of_its_batch():
    def failing(request: Request) -> dict:
        if (request.features["a"].values == 5).any():
            raise RuntimeError("no fives")
        return {"sum": request.features["a"].lengths}

    batcher = Batcher(failing, max_delay=0.05)
    rng = np.random.default_rng(1)
    parts = [{**given(rng, 1), "features": {"a": [[one]], "b": [[]]}} for one in (1, 5, 2)]
    good, bad, other = (batcher.submit(INPUTS.request(part)) for part in parts)
    assert good.result(60)["sum"].tolist() == other.result(60)["sum"].tolist() == [1]
    with pytest.raises(RuntimeError, match="no fives"):
        bad.result(60)
    batcher.close()


def test_requests_beyond_what_may_wait_are_refused():
    go = threading.Event()

    def slow(request: Request) -> dict:
        go.wait(60)
        return {"sum": request.features["a"].lengths}

    batcher = Batcher(slow, max_batch=1, max_delay=0.0, max_waiting=2)
    request = INPUTS.request(given(np.random.default_rng(0), 1))
    first = batcher.submit(request)
    while not first.running():
        time.sleep(0.001)
    waiting = [batcher.submit(request) for _ in range(2)]
    with pytest.raises(rl.RushlightError) as caught:
        batcher.submit(request)
    assert caught.value.code == "E031"
    waiting[0].cancel()
    go.set()
    batcher.close()
    assert waiting[1].result(0)["sum"].shape == (1,) and waiting[0].cancelled()


def test_a_compiled_function_submits_each_request_once():
    taken: list[Request] = []

    def answer(request: Request) -> dict:
        taken.append(request)
        return {"sum": request.features["a"].lengths}

    @rl.compile(backend="eager")
    def function(x: rl.Tensor) -> rl.Tensor:
        batcher = Batcher(answer, max_batch=1, max_delay=0.0, max_waiting=2)
        promise = batcher.submit(INPUTS.request(given(np.random.default_rng(0), 1)))
        batcher.close()
        return x * len(promise.result()["sum"])

    for call in range(1, 3):
        assert function(rl.ones(2)).tolist() == [1.0, 1.0]
        assert len(taken) == call


GOOD = {"features": {"a": [[1]], "b": [[2, 3]]}, "dense": {"x": [[0.5, 1]]}}


WRONG = {
    "no object": (lambda one: [1], "E030"),
    "no features": (lambda one: {"dense": one["dense"]}, "E005"),
    "unknown": (lambda one: {**one, "feature": {}}, "E030"),
    "unknown feature": (lambda one: {**one, "features": {**one["features"], "c": [[1]]}}, "E030"),
    "no list": (lambda one: {**one, "features": {**one["features"], "a": 3}}, "E030"),
    "flat": (lambda one: {**one, "features": {**one["features"], "a": [3]}}, "E030"),
    "float": (lambda one: {**one, "features": {**one["features"], "a": [[3.0]]}}, "E030"),
    "truth": (lambda one: {**one, "features": {**one["features"], "a": [[True]]}}, "E030"),
    "huge": (lambda one: {**one, "features": {**one["features"], "a": [[2**70]]}}, "E030"),
    "beyond": (lambda one: {**one, "features": {**one["features"], "a": [[6]]}}, "E006"),
    "negative": (lambda one: {**one, "features": {**one["features"], "a": [[-1]]}}, "E006"),
    "examples": (lambda one: {**one, "features": {**one["features"], "a": [[1], [2]]}}, "E030"),
    "width": (lambda one: {**one, "dense": {"x": [[0.5]]}}, "E030"),
    "text": (lambda one: {**one, "dense": {"x": [["0.5", 1]]}}, "E030"),
    "infinite": (lambda one: {**one, "dense": {"x": [[1e300, 1]]}}, "E030"),
    "no number": (lambda one: {**one, "dense": {"x": [[float("nan"), 1]]}}, "E030"),
    "long": (lambda one: {**one, "dense": {"x": [[10**400, 1]]}}, "E030"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_requests_that_do_not_fit_are_refused(name: str):
    change, code = WRONG[name]
    INPUTS.request(GOOD)
    with pytest.raises(rl.RushlightError) as caught:
        INPUTS.request(change(GOOD))
    assert caught.value.code == code


def test_rows_of_sequences_are_divided_by_examples():
    rl.manual_seed(0)
    tables = EmbeddingCollection([EmbeddingConfig(6, 2, "t", feature_names=["a"])])
    module = PredictModule(tables, {"a": 6})
    batcher = Batcher(module, max_delay=0.05)
    requests = [Inputs({"a": 6}, {}).request({"features": {"a": rows}}) for rows in ([[1, 2], []], [[5]])]
    first, second = (batcher.submit(request).result(60)["a"] for request in requests)
    batcher.close()
    weight = tables.embeddings["t"].weight.tolist()
    assert isinstance(first, Ragged) and first.tolist() == [[weight[1], weight[2]], []]
    assert second.tolist() == [[weight[5]]]


def test_collections_of_a_model_become_small():
    class Model(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.bags = EmbeddingBagCollection([EmbeddingBagConfig(6, 4, "t", feature_names=["a"])])
            rows = EmbeddingCollection([EmbeddingConfig(6, 4, "u", feature_names=["b"])])
            self.inner = rl.nn.ModuleDict({"rows": rows})

    small = quantize_inference_model(Model())
    assert isinstance(small.bags, QuantEmbeddingBagCollection)
    assert isinstance(small.inner["rows"], QuantEmbeddingCollection)
    assert sorted(small.state_dict()) == sorted(
        f"{path}.{part}"
        for path in ("bags.embedding_bags.t", "inner.rows.embeddings.u")
        for part in ("weight", "weight_qscale", "weight_qbias")
    )
