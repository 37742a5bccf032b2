"""Weights by position: values, gradients, compiled and of batches of several sizes."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.recsys import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from rushlight.recsys.modules import (
    FeatureProcessedEmbeddingBagCollection,
    PositionWeightedModule,
    PositionWeightedModuleCollection,
)

TABLES = [
    EmbeddingBagConfig(11, 4, "t", feature_names=["a", "b"]),
    EmbeddingBagConfig(7, 2, "u", feature_names=["c"]),
]
LENGTHS = {"a": 4, "b": 3}


def batch(size: int, seed: int = 0) -> KeyedJaggedTensor:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 4, 3 * size)
    ids = rng.integers(0, 7, lengths.sum())
    return KeyedJaggedTensor(["c", "a", "b"], rl.tensor(ids), lengths=rl.tensor(lengths))


def made(kind: str) -> FeatureProcessedEmbeddingBagCollection:
    rl.manual_seed(0)
    collection = EmbeddingBagCollection(TABLES, is_weighted=True)
    if kind == "one":
        processors = PositionWeightedModuleCollection(LENGTHS)
        parameters = list(processors.parameters())
    else:
        processors = {key: PositionWeightedModule(LENGTHS.get(key, 3)) for key in "abc"}
        parameters = [processors[key].position_weight for key in "ab"]
    with rl.no_grad():
        for number, weight in enumerate(parameters):
            weight.copy_(rl.arange(weight.shape[0]) * 0.5 - number)
    return FeatureProcessedEmbeddingBagCollection(collection, processors)


@pytest.mark.row("9.1")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind", ["one", "each"])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_rows_are_weighed_by_their_place(kind: str, size: int, compiled: bool):
    model, features = made(kind), batch(size)
    run = rl.compile(model, fullgraph=True) if compiled else model
    pooled = run(features)
    pooled.values().sum().backward()
    tables = {"a": "t", "b": "t", "c": "u"}
    for number, key in enumerate("abc"):
        weight = model._embedding_bag_collection.embedding_bags[tables[key]].weight.detach().numpy().astype(np.float64)
        scale = np.arange(4) * 0.5 - number if key in LENGTHS else np.ones(4)
        bags = [ids.numpy() for ids in features[key].to_dense()]
        expected = (
            np.stack([(weight[ids] * scale[: len(ids), None]).sum(0) for ids in bags])
            if bags
            else np.zeros(pooled[key].shape)
        )
        np.testing.assert_allclose(pooled[key].detach().numpy(), expected, atol=1e-6)
        if key in LENGTHS:
            wanted = np.zeros(LENGTHS[key])
            for ids in bags:
                wanted[: len(ids)] += weight[ids].sum(1)
            one = model._feature_processors
            found = one.position_weights[key] if kind == "one" else one[key].position_weight
            np.testing.assert_allclose(found.grad.numpy(), wanted, atol=1e-5)


def test_state_dicts_have_the_keys_of_torchrec():
    assert list(made("one").state_dict()) == [
        "_embedding_bag_collection.embedding_bags.t.weight",
        "_embedding_bag_collection.embedding_bags.u.weight",
        "_feature_processors.position_weights.a",
        "_feature_processors.position_weights.b",
    ]
    assert "_feature_processors.c.position_weight" in made("each").state_dict()


def test_batches_of_several_sizes():
    model = made("one")
    features = KeyedJaggedTensor(
        ["a", "b", "c"],
        rl.tensor([1, 2, 3, 4]),
        lengths=rl.tensor([1, 2, 0, 1]),
        stride_per_key_per_rank=[[2], [1], [1]],
        inverse_indices=(["a", "b", "c"], rl.tensor([[0, 1], [0, 0], [0, 0]])),
    )
    whole = KeyedJaggedTensor(["a", "b", "c"], rl.tensor([1, 2, 3, 4, 4]), lengths=rl.tensor([1, 2, 0, 0, 1, 1]))
    np.testing.assert_array_equal(model(features).values().detach().numpy(), model(whole).values().detach().numpy())


def test_what_does_not_fit_is_refused():
    plain = EmbeddingBagCollection(TABLES)
    weighted = EmbeddingBagCollection(TABLES, is_weighted=True)
    cases = [
        ("E001", lambda: FeatureProcessedEmbeddingBagCollection(plain, PositionWeightedModuleCollection(LENGTHS))),
        ("E005", lambda: FeatureProcessedEmbeddingBagCollection(weighted, {"a": PositionWeightedModule(3)})),
        ("E001", lambda: PositionWeightedModule(0)),
        ("E001", lambda: PositionWeightedModuleCollection({"a": 0})),
        ("E006", long_row),
    ]
    for code, case in cases:
        with pytest.raises(rl.RushlightError) as caught:
            case()
        assert caught.value.code == code


def long_row() -> object:
    ids = rl.tensor([1, 2, 3, 4])
    return made("one")(KeyedJaggedTensor(["a", "b", "c"], ids, lengths=rl.tensor([0, 4, 0])))
