"""Ids without bounds: maps that are those of TorchRec, rows that begin anew, states, compiled lookups."""

import gzip
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from managed_tables import batch, managed
from rushlight.recsys import (
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
    FusedEmbeddingBagCollection,
    JaggedTensor,
    KeyedJaggedTensor,
)
from rushlight.recsys.modules import (
    DistanceLFU_EvictionPolicy,
    LFU_EvictionPolicy,
    LRU_EvictionPolicy,
    ManagedCollisionCollection,
    ManagedCollisionEmbeddingBagCollection,
    ManagedCollisionEmbeddingCollection,
    MCHManagedCollisionModule,
    average_threshold_filter,
    dynamic_threshold_filter,
    probabilistic_threshold_filter,
)
from rushlight.recsys.optim import RowWiseAdagrad

POLICIES = {"LFU": LFU_EvictionPolicy, "LRU": LRU_EvictionPolicy, "DistanceLFU": DistanceLFU_EvictionPolicy}
FILTERS = {
    None: None,
    "average_threshold_filter": average_threshold_filter,
    "dynamic_threshold_filter": partial(dynamic_threshold_filter, threshold_skew_multiplier=1.5),
}
# Written by torchrec 1.8: ids and rows of twelve batches, and the state after them.
CASES = json.loads(gzip.decompress((Path(__file__).parent / "data" / "managed_collisions.json.gz").read_bytes()))


def flat(ids: np.ndarray) -> JaggedTensor:
    return JaggedTensor(rl.tensor(ids), lengths=rl.tensor([len(ids)]))


@pytest.mark.row("9.1")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['policy']}-{case['interval']}-{case['filter']}")
def test_rows_and_states_are_those_of_torchrec(case: dict):
    policy = POLICIES[case["policy"]](threshold_filtering_func=FILTERS[case["filter"]])
    module = MCHManagedCollisionModule(7, eviction_policy=policy, eviction_interval=case["interval"])
    for ids, expected in case["batches"]:
        assert module({"f": flat(np.array(ids))})["f"].values().tolist() == expected
    state = module.state_dict()
    assert set(case["state"]) == set(state) - {"_output_segments_tensor"}
    for name, expected in case["state"].items():
        # What the shared row has there is a matter of each.
        last = -1 if name in ("_mch_counts", "_mch_last_access_iter") else None
        assert state[name].tolist()[:last] == expected[:last], name


def test_rows_whose_id_is_evicted_begin_anew_with_their_state():
    policy = LRU_EvictionPolicy()
    tables = [EmbeddingBagConfig(3, 4, "t", feature_names=["f"], init_fn=lambda rows: rows.fill_(7.0))]
    maps = ManagedCollisionCollection({"t": MCHManagedCollisionModule(3, eviction_policy=policy)}, tables)
    fused = FusedEmbeddingBagCollection(tables, RowWiseAdagrad, {"lr": 0.1})
    model = ManagedCollisionEmbeddingBagCollection(fused, maps, return_remapped_features=True)

    def step(ids: list[int]) -> list[int]:
        given = KeyedJaggedTensor(["f"], rl.tensor(ids), lengths=rl.tensor([len(ids)]))
        pooled, rows = model(given)
        pooled.values().sum().backward()
        return rows.values().tolist()

    weight, state = fused.embedding_bags["t"].weight, fused.states_of_tables()[0]["momentum1"]
    first = step([100, 200])
    assert sorted(first) == [0, 1]
    kept = weight.detach().numpy().copy()
    assert (kept[:2] != 7).all()
    assert (state[:2] > 0).all()
    second = step([200, 300])  # 100 came longest ago
    assert second == [first[1], first[0]]
    fresh = FusedEmbeddingBagCollection(tables, RowWiseAdagrad, {"lr": 0.1})
    fresh(KeyedJaggedTensor(["f"], rl.tensor([0]), lengths=rl.tensor([1]))).values().sum().backward()
    np.testing.assert_array_equal(weight[first[0]].detach().numpy(), fresh.embedding_bags["t"].weight[0].numpy())
    assert state[first[0]] == fresh.states_of_tables()[0]["momentum1"][0]
    np.testing.assert_array_equal(weight[2].detach().numpy(), np.full(4, 7.0))
    assert step([400, 300]) == [first[1], first[0]]


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("fused", [True, False])
def test_steps_are_deterministic_and_go_on_from_a_state(fused: bool, buckets: int):
    def trained(model, steps):
        found = []
        for step in steps:
            pooled, rows = model(batch(step))
            pooled.values().square().sum().backward()
            found.append((pooled.values().detach().numpy().copy(), rows.values().tolist()))
        return found

    whole, rest = managed(2, fused, buckets), managed(2, fused, buckets)
    first = trained(whole, range(6))
    rl.manual_seed(9)
    assert [rows for _, rows in trained(rest, range(4))] == [rows for _, rows in first[:4]]
    again = managed(2, fused, buckets)
    again.load_state_dict(rest.state_dict())
    if fused:
        states = rest._embedding_module.fused_optimizer_state()
        for name, state in again._embedding_module.fused_optimizer_state().items():
            state.copy_(states[name])
    for (found, rows), (expected, wanted) in zip(trained(again, range(4, 6)), first[4:], strict=True):
        assert rows == wanted
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("buckets", [1, 3])
def test_compiled_lookups_are_whole_and_compiled_steps_are_the_same(buckets: int):
    eager, compiled = managed(2, True, buckets), managed(2, True, buckets)
    run = rl.compile(compiled)
    for step in range(5):
        expected, found = eager(batch(step)), run(batch(step))
        for pooled, _ in (expected, found):
            pooled.values().square().sum().backward()
        np.testing.assert_array_equal(found[0].values().detach().numpy(), expected[0].values().detach().numpy())
        assert found[1].values().tolist() == expected[1].values().tolist()
    eager = managed(2, False, buckets)
    eager(batch(4))
    eager(batch(5))
    eager.eval()
    whole = rl.compile(eager, fullgraph=True)
    before = rl.compiler.graph_count()
    for size in (0, 1, 7):
        found, expected = whole(batch(5, size)), eager(batch(5, size))
        np.testing.assert_array_equal(found[0].values().detach().numpy(), expected[0].values().detach().numpy())
    assert rl.compiler.graph_count() == before + 1


def test_sequences_have_the_rows_of_their_ids():
    tables = [EmbeddingConfig(5, 2, "t", feature_names=["f"])]
    maps = ManagedCollisionCollection({"t": MCHManagedCollisionModule(5, eviction_policy=LFU_EvictionPolicy())}, tables)
    collection = EmbeddingCollection(tables)
    model = ManagedCollisionEmbeddingCollection(collection, maps, return_remapped_features=True)
    given = KeyedJaggedTensor(["f"], rl.tensor([9, 8, 9]), lengths=rl.tensor([1, 0, 2]))
    rows, remapped = model(given)
    weight = collection.embeddings["t"].weight
    np.testing.assert_array_equal(rows["f"].values().detach().numpy(), weight[remapped.values()].detach().numpy())
    assert rows["f"].lengths().tolist() == [1, 0, 2]


def test_ids_are_hashed_first_and_filters_draw():
    module = MCHManagedCollisionModule(
        4, eviction_policy=LFU_EvictionPolicy(), input_hash_size=3, input_hash_func=lambda ids, size: ids % size
    )
    rows = module({"f": flat(np.array([1, 4, 7, 2]))})["f"].values().tolist()
    assert len(set(rows[:3])) == 1 != len(set(rows))
    assert module.input_size() == 3
    assert module.open_slots().tolist() == [1]
    rl.manual_seed(0)
    chosen, _ = probabilistic_threshold_filter(rl.full((2000,), 100))
    assert 0.58 < chosen.float().mean() < 0.68  # 1 - 0.99 ** 100


def test_ids_of_no_row_share_the_last_one_and_evaluation_notes_nothing():
    model = managed()
    model.eval()
    _, rows = model(batch(0))
    assert set(rows.split([2, 1])[0].values().tolist()) == {7}
    assert model._managed_collision_collection.open_slots()["t"].tolist() == [7]


def test_what_cannot_be_a_map_is_refused():
    tables = [EmbeddingBagConfig(8, 4, "t", feature_names=["a"])]
    policy = LFU_EvictionPolicy()
    cases = [
        lambda: MCHManagedCollisionModule(0, eviction_policy=policy),
        lambda: MCHManagedCollisionModule(4),
        lambda: MCHManagedCollisionModule(4, eviction_policy=policy, buckets=5),
        lambda: MCHManagedCollisionModule(4, eviction_policy=policy, eviction_interval=0),
        lambda: ManagedCollisionCollection({}, tables),
        lambda: ManagedCollisionCollection({"t": MCHManagedCollisionModule(7, eviction_policy=policy)}, tables),
    ]
    for case in cases:
        with pytest.raises(rl.RushlightError) as caught:
            case()
        assert caught.value.code == "E001"
