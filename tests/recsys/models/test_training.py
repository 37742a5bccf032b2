"""Named optimizers, schedules, steps in the backward pass and readers do what TorchRec's do."""

from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from recorded_models import DENSE, RECORDED, filled, ids, numbers, tables
from rushlight.recsys import EmbeddingCollection, EmbeddingConfig
from rushlight.recsys.datasets import Batch, CriteoIterDataPipe, InMemoryBinaryCriteoIterDataPipe, RandomRecDataset
from rushlight.recsys.datasets.criteo import batch_sizes
from rushlight.recsys.models import DLRM
from rushlight.recsys.modules.groups import rule_of_weights
from rushlight.recsys.optim import (
    CombinedOptimizer,
    EmbOptimType,
    GradientClipping,
    GradientClippingOptimizer,
    KeyedOptimizerWrapper,
    RowWiseAdagrad,
    WarmupOptimizer,
    WarmupPolicy,
    WarmupStage,
    apply_optimizer_in_backward,
    in_backward_optimizer_filter,
    rule_of_parameters,
)
from rushlight.support.errors import RushlightError


def parameter(seed: int) -> rl.nn.Parameter:
    made = rl.nn.Parameter(numbers(seed, 5))
    made.grad = numbers(seed + 1, 5) * 3
    return made


def sgd(named: dict[str, rl.Tensor], lr: float = 1.0) -> KeyedOptimizerWrapper:
    return KeyedOptimizerWrapper(named, lambda parameters: rl.optim.SGD(parameters, lr=lr))


@pytest.mark.parametrize("case", RECORDED["warmups"], ids=lambda case: "-".join(kind for kind, _ in case["stages"]))
def test_learning_rates_of_stages_are_those_of_torchrec(case: dict):
    stages = [WarmupStage(WarmupPolicy(kind), **numbers_of) for kind, numbers_of in case["stages"]]
    optimizer = WarmupOptimizer(sgd({"p": parameter(1)}), stages, lr=0.5)
    rates = []
    for _ in case["rates"]:
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
    assert rates == pytest.approx(case["rates"], rel=1e-12)


def test_a_schedule_goes_on_where_it_was_saved():
    stages = [WarmupStage(WarmupPolicy.LINEAR, max_iters=4, value=0.1)]
    first, second = (WarmupOptimizer(sgd({"p": parameter(1)}), stages, lr=0.5) for _ in range(2))
    for _ in range(2):
        first.step()
    second.step()
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["lr"] == first.param_groups[0]["lr"] != 0.05


@pytest.mark.parametrize("case", RECORDED["clipping"], ids=lambda case: f"{case['kind']}-{case['norm']}")
def test_gradients_are_clipped_as_torchrec_does(case: dict):
    own = parameter(1)
    GradientClippingOptimizer(sgd({"p": own}), GradientClipping(case["kind"]), 0.5, case["norm"]).step()
    np.testing.assert_allclose(own.detach().numpy(), case["values"], rtol=1e-5, atol=1e-7)


KINDS = {
    "RowWiseAdagrad": (RowWiseAdagrad, {"lr": 0.1, "eps": 1e-8}),
    "SGD": (rl.optim.SGD, {"lr": 0.1}),
    "Adagrad": (rl.optim.Adagrad, {"lr": 0.1, "eps": 1e-8}),
}


@pytest.mark.parametrize("name", KINDS)
def test_tables_step_in_the_backward_pass_as_torchrecs(name: str):
    model, recorded = filled(DLRM(tables(), *DENSE, [5, 1])), RECORDED["in_backward"][name]
    apply_optimizer_in_backward(KINDS[name][0], model.sparse_arch.parameters(), KINDS[name][1])
    dense = dict(in_backward_optimizer_filter(model.named_parameters()))
    optimizer = CombinedOptimizer([KeyedOptimizerWrapper(dense, lambda own: rl.optim.Adagrad(own, lr=0.1))])
    for seed in range(4):
        optimizer.zero_grad()
        model(numbers(seed, 3, 6), ids()).pow(2).sum().backward()
        assert all(one.grad is None for one in model.sparse_arch.parameters())
        optimizer.step()
    for key, rows in recorded["rows"].items():
        own = model.sparse_arch.state_dict()[key].numpy().ravel()[:16]
        np.testing.assert_allclose(own, rows, rtol=1e-4, atol=1e-5, err_msg=key)
    output = model(numbers(3, 3, 6), ids()).detach().numpy().ravel()
    np.testing.assert_allclose(output, recorded["output"], rtol=1e-4, atol=1e-5)
    state = optimizer.state_dict()["state"]
    assert {key: sorted(entry) for key, entry in state.items()} == recorded["keys"]
    assert state["over_arch.model.1.bias"]["sum"].item() == pytest.approx(recorded["sum"], rel=1e-4)


def test_states_go_by_names_and_fit_entry_by_entry():
    def made() -> CombinedOptimizer:
        own = [KeyedOptimizerWrapper({"p": parameter(seed)}, lambda ps: rl.optim.Adam(ps, lr=0.1)) for seed in (1, 2)]
        return CombinedOptimizer([("a", own[0]), ("b", own[1])])

    first, second = made(), made()
    first.save_param_groups(True)
    second.save_param_groups(True)
    first.step()
    first.step()
    second.step()
    state = first.state_dict()
    assert list(state["state"]) == ["a.p", "b.p"] and [group["params"] for group in state["param_groups"]] == [
        ["a.p"],
        ["b.p"],
    ]
    state["param_groups"][1]["lr"] = 0.5
    second.load_state_dict(state)
    assert second.param_groups[1]["lr"] == 0.5 and second.param_groups[0]["lr"] == 0.1
    loaded = second.state_dict()["state"]
    for name, entry in first.state_dict()["state"].items():
        for key, value in entry.items():
            assert bool((loaded[name][key] == value).all()), (name, key)
    with pytest.raises(RushlightError) as refused:
        second.load_state_dict({"state": {"a.p": state["state"]["a.p"]}, "param_groups": state["param_groups"]})
    assert refused.value.code == "P004"
    with pytest.raises(RushlightError, match="Duplicate"):
        CombinedOptimizer([sgd({"p": parameter(1)}), sgd({"p": parameter(2)})])


def test_schedulers_take_named_optimizers():
    optimizer = CombinedOptimizer([sgd({"a": parameter(1)}), sgd({"b": parameter(2)}, lr=0.5)])
    schedule = rl.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    optimizer.step()
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.1, 0.05])


def test_fused_parameters_name_rules():
    assert rule_of_parameters({"learning_rate": 0.1}) is None
    rule = rule_of_parameters({"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": 0.1, "eps": 1e-6})
    assert rule == RowWiseAdagrad(lr=0.1, eps=1e-6)
    for wrong in ({"optimizer": "adam"}, {"optimizer": EmbOptimType.SGD, "momentum": 0.9}):
        with pytest.raises(RushlightError) as refused:
            rule_of_parameters(wrong)
        assert refused.value.code == "A002"


@pytest.mark.parametrize(
    "case", RECORDED["criteo"], ids=lambda case: f"{case['stage']}-{case['sizes']}-{case['keywords']}"
)
def test_batches_of_criteos_arrays_are_those_of_torchrec(case: dict, tmp_path: Path):
    columns = [("dense", 13, 100, np.float32), ("sparse", 26, 1000, np.int32), ("labels", 1, 2, np.int32)]
    paths: list[list[Path]] = [[], [], []]
    for number, size in enumerate(case["sizes"]):
        random = np.random.RandomState(number)
        for kind, (name, width, limit, dtype) in enumerate(columns):
            paths[kind].append(tmp_path / f"{number}_{name}.npy")
            np.save(paths[kind][-1], random.randint(0, limit, (size, width)).astype(dtype))
    for rank, (length, expected) in enumerate(case["ranks"]):
        ranks = len(case["ranks"])
        data = InMemoryBinaryCriteoIterDataPipe(case["stage"], *paths, case["batch"], rank, ranks, **case["keywords"])
        assert len(data) == length
        for batch, (size, labels, dense, last, stride) in zip(data, expected, strict=True):
            assert (batch.labels.shape[0], batch.sparse_features.stride()) == (size, stride)
            assert batch.labels.tolist() == labels and batch.dense_features[:, 0].tolist() == dense
            assert batch.sparse_features["cat_25"].values().tolist() == last


def test_all_ranks_have_as_many_batches():
    assert batch_sizes(25, 4, 2, drop_last=False) == [4, 4, 4, 4, 5, 4]
    for total in range(1, 40):
        for ranks in (1, 2, 3):
            sizes = batch_sizes(total, 4, ranks, drop_last=False)
            assert sum(sizes) == total and len(sizes) % ranks == 0


def test_lines_of_criteos_logs_are_read(tmp_path: Path):
    path = tmp_path / "day_0.tsv"
    path.write_text("\t".join(["1", "7", "", *["3"] * 11, *["ab"] * 26]) + "\n" + "\t".join(["0"] * 40) + "\n")
    first, second = CriteoIterDataPipe([path])
    assert (first["label"], first["int_0"], first["int_1"], first["cat_25"], second["cat_0"]) == (1, 7, 0, "ab", "0")
    assert next(iter(CriteoIterDataPipe([path], row_mapper=len))) == 40


def test_random_batches_keep_to_their_bounds():
    keys = ["a", "b"]
    data = RandomRecDataset(
        keys, 16, hash_sizes=[3, 50], ids_per_features=[1, 5], num_dense=4, manual_seed=1, num_batches=25
    )
    batches = list(data)
    assert len(batches) == len(data) == 25 and batches[0] is batches[10]
    for batch in batches:
        lengths = batch.sparse_features.lengths().reshape(2, 16)
        assert batch.dense_features.shape == (16, 4) and set(batch.labels.tolist()) <= {0, 1}
        assert int(lengths[0].max()) <= 1 and int(lengths[1].max()) <= 5
        assert int(batch.sparse_features["a"].values().max()) < 3
    same = next(
        iter(RandomRecDataset(keys, 16, hash_sizes=[3, 50], ids_per_features=[1, 5], num_dense=4, manual_seed=1))
    )
    assert same.sparse_features.values().tolist() == batches[0].sparse_features.values().tolist()
    exact = next(iter(RandomRecDataset(keys, 4, hash_size=9, ids_per_feature=3, num_generated_batches=-1)))
    assert exact.sparse_features.lengths().tolist() == [3] * 8
    assert isinstance(exact.to("cpu"), Batch)
    with pytest.raises(RushlightError) as refused:
        RandomRecDataset(keys, 4, hash_sizes=[3])
    assert refused.value.code == "A002"


def test_a_rule_of_parameters_is_an_optimizer_of_them():
    table = rl.nn.Parameter(rl.ones(3, 2))
    table.grad = rl.ones(3, 2)
    optimizer = RowWiseAdagrad([table], lr=0.5)
    optimizer.step()
    np.testing.assert_allclose(table.detach().numpy(), np.full((3, 2), 0.5), rtol=1e-6)
    assert RowWiseAdagrad(0.5) == RowWiseAdagrad(lr=0.5)


def test_tables_of_one_collection_have_one_optimizer():
    sequences = EmbeddingCollection(
        [EmbeddingConfig(name=name, embedding_dim=4, num_embeddings=9, feature_names=[name]) for name in "ab"]
    )
    weights = sequences.weights_of_tables()
    assert rule_of_weights(weights) is None
    apply_optimizer_in_backward(rl.optim.SGD, weights[:1], {"lr": 0.1})
    with pytest.raises(RushlightError) as refused:
        rule_of_weights(weights)
    assert refused.value.code == "A006"
