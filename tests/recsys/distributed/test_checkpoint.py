"""Tables that four ranks save are loaded by any number of ranks, in any cover."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.distributed.checkpoint.reading import Shards
from rushlight.recsys import PoolingType
from rushlight.recsys import optim as rules
from rushlight.recsys.distributed import DistributedModelParallel
from sharded_tables import KINDS, SIZES, arrays, collection, features, loss_of, plan_of, rows_of, whole_of

RULE = (rules.PartialRowWiseAdam, {"lr": 0.02})


def model_of(kind: str) -> DistributedModelParallel:
    module = collection(*RULE, PoolingType.SUM, weighted=False)
    return DistributedModelParallel(module, plan=plan_of(kind, module, dist.get_world_size()))


def state_of(model: DistributedModelParallel) -> dict[str, object]:
    return {"model": model, "tables": model.fused_optimizer}


def step(model, number: int, first: int, end: int) -> None:
    own = features(rows_of(number, sum(SIZES)), first, end, weighted=False)
    # Tables step by the mean over ranks: of four, however many there are.
    (loss_of(model(own).values(), number) * (dist.get_world_size() / 4)).backward()


def trained(kind: str, folder: str):
    model = model_of(kind)
    ends = np.cumsum([0, *SIZES])
    for number in range(3):
        step(model, number, ends[dist.get_rank()], ends[dist.get_rank() + 1])
    checkpoint.save(state_of(model), folder)
    step(model, 3, ends[dist.get_rank()], ends[dist.get_rank() + 1])
    return boxes(model)


def continued(kind: str, folder: str):
    """What ranks have after a load and a step on all examples, which the first one has."""
    rl.manual_seed(1)
    model = model_of(kind)
    checkpoint.load(state_of(model), folder)
    step(model, 3, 0, sum(SIZES) if dist.get_rank() == 0 else 0)
    return boxes(model)


def boxes(model: DistributedModelParallel) -> dict[str, list]:
    states = [value for one in model.fused_optimizer.state_dict()["state"].items() for value in one[1].items()]
    return {name: arrays(value) for name, value in [*model.state_dict().items(), *states]}


def whole(found: list[dict[str, list]], name: str) -> np.ndarray:
    ends = np.array([[end for _, end in place] for one in found for place, _ in one[name]])
    values = next(value for one in found for _, value in one[name])
    return whole_of([one[name] for one in found], tuple(ends.max(0).tolist()) if ends.size else (), values.dtype)


@pytest.mark.generated
@pytest.mark.row("9.3")
@pytest.mark.parametrize(("before", "after"), list(zip(KINDS, [*KINDS[3:], *KINDS[:3]], strict=True)))
def test_any_plan_of_four_ranks_is_loaded_by_two_and_by_one(before: str, after: str, tmp_path):
    folder = str(tmp_path)
    expected = dist.spawn(trained, 4, (before, folder))
    for world in (2, 1):
        found = dist.spawn(continued, world, (after, folder))
        assert set(found[0]) == set(expected[0])
        for name in found[0]:
            mine, theirs = whole(found, name), whole(expected, name)
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
            if name.endswith(".step"):
                assert mine == 4


def test_one_process_without_a_plan_loads_the_tables(tmp_path):
    folder = str(tmp_path)
    expected = dist.spawn(trained, 4, ("grid_shard", folder))
    module = collection(*RULE, PoolingType.SUM, weighted=False)
    states: dict[str, dict[str, rl.Tensor]] = {}
    for name, state in module.fused_optimizer_state().items():
        _, table, own = name.split(".", 2)
        states.setdefault(f"embedding_bags.{table}.weight", {})[own] = state
    checkpoint.load({"model": module, "tables": {"state": states}}, folder)
    own = features(rows_of(3, sum(SIZES)), 0, sum(SIZES), weighted=False)
    (loss_of(module(own).values(), 3) / 4).backward()
    for name, value in module.state_dict().items():
        np.testing.assert_allclose(value.numpy(), whole(expected, name), rtol=1e-5, atol=1e-6)


def loaded_in_parts(folder: str) -> dict[str, list]:
    module = collection(*RULE, PoolingType.SUM, weighted=False, device="meta")
    model = DistributedModelParallel(module, plan=plan_of("row_wise", module, dist.get_world_size()))
    checkpoint.load(state_of(model), folder)
    return boxes(model)


def test_no_rank_has_a_whole_table(tmp_path, monkeypatch):
    """Tables on `meta` have no memory; each rank makes and reads its own rows alone."""
    folder, read, most = str(tmp_path), Shards.read, {0: 0, 1: 0}

    def counted(shards: Shards, name: str, box, target: np.ndarray) -> None:
        most[dist.get_rank()] = max(most[dist.get_rank()], target.size)
        read(shards, name, box, target)

    dist.spawn(trained, 4, ("grid_shard", folder))
    monkeypatch.setattr(Shards, "read", counted)
    found = dist.spawn(loaded_in_parts, 2, (folder,))
    assert most == {0: 6 * 8, 1: 5 * 8}
    monkeypatch.undo()
    alone = collection(*RULE, PoolingType.SUM, weighted=False)
    checkpoint.load({"model": alone}, folder)
    for name, value in alone.state_dict().items():
        np.testing.assert_array_equal(whole(found, name), value.numpy())


def test_a_state_of_other_shards_is_refused():
    def job():
        one, other = model_of("row_wise"), model_of("table_wise")
        with pytest.raises(rl.RushlightError, match="other shards") as caught:
            one.load_state_dict(other.state_dict())
        one.load_state_dict(one.state_dict())
        one.load_state_dict(collection(*RULE, PoolingType.SUM, weighted=False).state_dict())
        return caught.value.code

    assert set(dist.spawn(job, 2)) == {"P004"}
