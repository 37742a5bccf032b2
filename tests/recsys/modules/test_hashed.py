"""Hash tables of ids: rows are those of TorchRec's tables, and of a model in Python where these have no order."""

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.recsys import EmbeddingConfig, FusedEmbeddingCollection, JaggedTensor, KeyedJaggedTensor
from rushlight.recsys.modules import (
    HashZchEvictionConfig,
    HashZchEvictionPolicyName,
    HashZchManagedCollisionModule,
    ManagedCollisionCollection,
    ManagedCollisionEmbeddingCollection,
)
from rushlight.recsys.modules.hashed import hashed
from rushlight.recsys.optim import SGD
from rushlight.support.errors import RushlightError

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "hash_zch.json").read_text())
"""Rows that torchrec 1.8 with fbgemm-gpu-cpu 1.8 gives ids, for ids that a table has."""


def mapped(module: HashZchManagedCollisionModule, ids: list[int], counts: list[int] | None = None) -> list[int]:
    weights = None if counts is None else rl.tensor(counts)
    values = rl.tensor(ids, dtype=rl.int64)
    feature = JaggedTensor.of_parts((values, weights, rl.ones(len(ids), dtype=rl.int64), None))
    return module.remap({"a": feature})["a"].values().tolist()


def module_of(case: dict[str, Any], **more: Any) -> HashZchManagedCollisionModule:
    names = {"buckets": "total_num_buckets", "max_probe": "max_probe", "input_hash_size": "input_hash_size"}
    return HashZchManagedCollisionModule(case["size"], **{theirs: case[ours] for ours, theirs in names.items()}, **more)


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['size']}-{case['buckets']}-{case['max_probe']}")
def test_rows_are_those_of_torchrecs_tables(case: dict[str, Any]):
    module = module_of(case)
    module.load_state_dict(
        {"_hash_zch_identities": rl.tensor(case["identities"])[:, None], "_hash_zch_bucket": module._hash_zch_bucket}
    )
    module.reset_inference_mode()
    assert mapped(module, case["asked"]) == case["rows"]
    assert module.evict() is None


class Model:
    """The same table as Python lists: rounds of probes, in which the least id takes a row."""

    def __init__(self, case: dict[str, Any], hours: bool):
        self.case, self.ids, self.hours = case, [-1] * case["size"], [-1] * case["size"]
        self.evicts, self.evicted = hours, set()

    def probes(self, one: int) -> list[int]:
        case = self.case
        size = case["size"] // case["buckets"]
        range_of = -(-case["input_hash_size"] // case["buckets"])
        first = (one // range_of if range_of else one % case["buckets"]) * size
        start = int(np.uint64(np.int64(hashed(rl.tensor([one])).item())) % np.uint64(size))
        return [first + (start + probe) % size for probe in range(case["max_probe"])][:size]

    def give(self, batch: list[int], now: int, expiry: int) -> list[int]:
        rows = {}
        for one in sorted(set(batch)):
            for row in self.probes(one):
                if self.ids[row] == one:
                    rows[one], self.hours[row] = row, max(self.hours[row], expiry)
                if self.ids[row] in (-1, one):
                    break
        for probe in range(min(self.case["max_probe"], self.case["size"])):
            taken: dict[int, int] = {}
            for one in sorted(set(batch) - set(rows)):
                places = self.probes(one)
                row = places[probe % len(places)]
                expired = self.evicts and self.hours[row] < now and self.hours[row] < expiry
                if (self.ids[row] == -1 or expired) and row not in taken:
                    taken[row] = one
            for row, one in taken.items():
                if self.ids[row] != -1:
                    self.evicted.add(row)
                self.ids[row], self.hours[row], rows[one] = one, expiry, row
        return [rows.get(one, self.probes(one)[0]) for one in batch]


@pytest.mark.parametrize("policy", [None, HashZchEvictionPolicyName.SINGLE_TTL_EVICTION])
@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['size']}-{case['buckets']}-{case['max_probe']}")
def test_ids_take_rows_as_in_a_model_of_lists(
    case: dict[str, Any], policy: HashZchEvictionPolicyName | None, monkeypatch: pytest.MonkeyPatch
):
    rng = random.Random(case["size"])
    config = HashZchEvictionConfig(["a"], single_ttl=2)
    module, model = (
        module_of(case, eviction_policy_name=policy, eviction_config=config),
        Model(case, policy is not None),
    )
    bound = case["input_hash_size"] or 2**62
    known = [rng.randrange(bound) for _ in range(case["size"] * 2)]
    for now in range(100, 112):
        monkeypatch.setattr(time, "time", lambda now=now: now * 3600 + 5)
        batch = [rng.choice(known) for _ in range(rng.choice([0, 1, 9]))]
        assert mapped(module, batch) == model.give(batch, now, now + 2)
        assert module._hash_zch_identities[:, 0].tolist() == model.ids
        changed = module.evict()
        assert (set() if changed is None else set(changed.tolist())) == model.evicted
        model.evicted = set()
    assert module.open_slots().item() == model.ids.count(-1)


def test_the_id_that_came_first_loses_its_row(monkeypatch: pytest.MonkeyPatch):
    config = HashZchEvictionConfig(["a"], single_ttl=1)
    module = HashZchManagedCollisionModule(
        3, eviction_policy_name=HashZchEvictionPolicyName.LRU_EVICTION, eviction_config=config
    )
    rows = {}
    for now, one in enumerate([5, 6, 7]):
        monkeypatch.setattr(time, "time", lambda now=now: (100 + now) * 3600)
        (rows[one],) = mapped(module, [one])
    assert sorted(rows.values()) == [0, 1, 2] and module.evict() is None
    monkeypatch.setattr(time, "time", lambda: 103 * 3600)
    assert mapped(module, [8]) == [rows[5]]  # 5 has expired first, 6 as well
    assert mapped(module, [6]) == [rows[6]]
    changed = module.evict()
    assert changed is not None and changed.tolist() == [rows[5]]
    monkeypatch.setattr(time, "time", lambda: 104 * 3600)
    assert mapped(module, [9, 10])[0] == rows[7]  # that of 6 has not
    assert module.open_slots().item() == 0


def test_features_have_hours_of_their_own(monkeypatch: pytest.MonkeyPatch):
    config = HashZchEvictionConfig(["a", "b"], per_feature_ttl=[1, 10])
    policy = HashZchEvictionPolicyName.PER_FEATURE_TTL_EVICTION
    module = HashZchManagedCollisionModule(2, eviction_policy_name=policy, eviction_config=config)
    monkeypatch.setattr(time, "time", lambda: 100 * 3600)
    short, long = mapped(module, [1, 2], [1, 1])
    monkeypatch.setattr(time, "time", lambda: 105 * 3600)
    assert mapped(module, [3], [1, 0]) == [short]
    assert mapped(module, [2], [0, 1]) == [long]
    with pytest.raises(RushlightError) as refused:
        mapped(module, [1, 2])
    assert refused.value.code == "E003"


def test_rows_of_evicted_ids_begin_anew(monkeypatch: pytest.MonkeyPatch):
    table = EmbeddingConfig(num_embeddings=2, embedding_dim=4, name="t", feature_names=["f"])
    policy = HashZchEvictionPolicyName.SINGLE_TTL_EVICTION
    config = HashZchEvictionConfig(["f"], single_ttl=1)
    maps = {"t": HashZchManagedCollisionModule(2, eviction_policy_name=policy, eviction_config=config)}
    model = ManagedCollisionEmbeddingCollection(
        FusedEmbeddingCollection([table], SGD, {"lr": 1.0}), ManagedCollisionCollection(maps, [table]), True
    )

    def step(ids: list[int]) -> np.ndarray:
        found, rows = model(KeyedJaggedTensor(["f"], rl.tensor(ids), lengths=rl.tensor([len(ids)])))
        found["f"].values().sum().backward()
        return rows["f"].values().numpy()

    monkeypatch.setattr(time, "time", lambda: 100 * 3600)
    rows = step([7, 8])
    assert sorted(rows) == [0, 1]
    weight = model.state_dict()["_embedding_module.embeddings.t.weight"]
    trained = weight.numpy().copy()
    monkeypatch.setattr(time, "time", lambda: 102 * 3600)
    (taken,) = step([9])
    changed = np.abs(weight.numpy() - trained).max(1) > 1e-6
    assert changed[taken] and not changed[1 - taken]
    assert np.abs(weight.numpy()[taken] + 1).max() <= np.sqrt(1 / 2) + 1e-6  # a new row, and one step of 1


def test_states_are_loaded_and_go_on():
    first = HashZchManagedCollisionModule(8, total_num_buckets=2)
    rows = mapped(first, [10**12, 3, 4])
    second = HashZchManagedCollisionModule(8, total_num_buckets=2)
    second.load_state_dict(first.state_dict())
    assert list(first.state_dict()) == ["_hash_zch_identities", "_hash_zch_bucket"]
    assert mapped(second, [3, 4, 10**12]) == [rows[1], rows[2], rows[0]]
    second.eval()
    free = second.open_slots().item()
    mapped(second, [77])
    assert second.open_slots().item() == free
    second.reset_training_mode()
    mapped(second, [77])
    assert second.open_slots().item() == free - 1


@pytest.mark.parametrize(
    ("code", "size", "given"),
    [
        ("A002", 4, {"opt_in_prob": 50}),
        ("E001", 4, {"total_num_buckets": 3}),
        ("E001", 0, {}),
        ("E001", 4, {"eviction_policy_name": HashZchEvictionPolicyName.LRU_EVICTION}),
        (
            "E001",
            4,
            {
                "eviction_policy_name": HashZchEvictionPolicyName.PER_FEATURE_TTL_EVICTION,
                "eviction_config": HashZchEvictionConfig(["a", "b"], per_feature_ttl=[1]),
            },
        ),
    ],
)
def test_what_a_table_is_not_made_of(code: str, size: int, given: dict[str, Any]):
    with pytest.raises(RushlightError) as refused:
        HashZchManagedCollisionModule(size, **given)
    assert refused.value.code == code


def test_ids_beyond_their_bound_are_refused():
    module = HashZchManagedCollisionModule(4, total_num_buckets=2, input_hash_size=10)
    for wrong in ([3, 10], [-1]):
        with pytest.raises(IndexError, match="below input_hash_size"):
            mapped(module, wrong)


def test_a_part_of_a_table_names_rows_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    policy = HashZchEvictionPolicyName.SINGLE_TTL_EVICTION
    config = HashZchEvictionConfig(["a"], single_ttl=1)
    whole = HashZchManagedCollisionModule(4, total_num_buckets=2, eviction_policy_name=policy, eviction_config=config)
    part = whole.rebuild_with_output_id_range((2, 4))
    assert (part.output_size(), part.bounds(), whole.bounds()) == (2, [2, 4], [0, 2, 4])
    for now, ids in enumerate([[1, 3], [5], [7, 9]]):
        monkeypatch.setattr(time, "time", lambda now=now: (100 + 3 * now) * 3600)
        rows = mapped(part, ids)
        assert rows == mapped(whole, ids) and set(rows) <= {2, 3}
        changed = [module.evict() for module in (part, whole)]
        assert [None if one is None else one.tolist() for one in changed] == [None if now == 0 else sorted(rows)] * 2
