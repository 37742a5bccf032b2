"""States by the names of parameters: those of the plain model, whatever divides it, and back."""

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.support.errors import RushlightError

FULL = StateDictOptions(full_state_dict=True, cpu_offload=True)


def make(seed=0):
    rl.manual_seed(seed)
    return rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.ReLU(), rl.nn.Linear(8, 1))


def trained(model):
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
    model(rl.arange(16.0).view(4, 4)).square().mean().backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("wrap", [lambda model: model, DistributedDataParallel, fully_shard])
def test_names_and_values_are_those_of_the_plain_model(wrap):
    def run():
        model = wrap(make())
        optimizer = trained(model)
        return get_state_dict(model, optimizer, options=FULL)

    alone = make()
    optimizer = trained(alone)
    for model_state, optimizer_state in dist.spawn(run, 2):
        assert list(model_state) == list(alone.state_dict())
        assert all(rl.allclose(value, alone.state_dict()[name]) for name, value in model_state.items())
        assert optimizer_state["param_groups"][0]["params"] == [name for name, _ in alone.named_parameters()]
        names = [name for name, _ in alone.named_parameters()]
        for number, entry in optimizer.state_dict()["state"].items():
            mine = optimizer_state["state"][names[number]]["exp_avg"]
            assert not isinstance(mine, DTensor) and rl.allclose(mine, entry["exp_avg"])


def test_a_checkpoint_of_divided_states_goes_to_another_wrapper(tmp_path):
    folder = str(tmp_path / "state")

    def save():
        model = fully_shard(make())
        optimizer = trained(model)
        model_state, optimizer_state = get_state_dict(model, optimizer)
        assert isinstance(model_state["0.weight"], DTensor)
        checkpoint.save({"model": model_state, "optimizer": optimizer_state}, folder)

    def load():
        model = DistributedDataParallel(make(1))
        optimizer = trained(model)
        state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        checkpoint.load(state, folder)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        return get_state_dict(model, optimizer, options=FULL)

    dist.spawn(save, 3)
    alone = make()
    optimizer = trained(alone)
    for model_state, optimizer_state in dist.spawn(load, 2):
        assert all(rl.allclose(value, alone.state_dict()[name]) for name, value in model_state.items())
        expected = get_optimizer_state_dict(alone, optimizer)["state"]["2.weight"]["exp_avg_sq"]
        assert rl.allclose(optimizer_state["state"]["2.weight"]["exp_avg_sq"], expected)


def test_whole_states_are_divided_and_the_first_rank_may_give_them():
    whole = make().state_dict()
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)

    def load():
        model = fully_shard(make(1 + dist.get_rank()))
        set_model_state_dict(model, whole if dist.get_rank() == 0 else {}, options=options)
        weight = model[0].weight
        return isinstance(weight, DTensor), weight.full_tensor()

    for divided, weight in dist.spawn(load, 2):
        assert divided and rl.equal(weight, whole["0.weight"])


def test_what_is_missing_is_an_error_unless_not_strict():
    model = make()
    optimizer = trained(model)
    state = get_optimizer_state_dict(model, optimizer)
    state["param_groups"][0]["params"].remove("0.bias")
    with pytest.raises(RushlightError, match="no state of some parameters") as caught:
        set_optimizer_state_dict(model, optimizer, state)
    assert caught.value.code == "A007"
    set_optimizer_state_dict(model, optimizer, state, options=StateDictOptions(strict=False))
    with pytest.raises(RushlightError) as caught:
        StateDictOptions(flatten_optimizer_state_dict=True)
    assert caught.value.code == "A006"


def test_frozen_parameters_can_be_left_out():
    model = make()
    model[0].weight.requires_grad_(False)
    options = StateDictOptions(ignore_frozen_params=True)
    assert "0.weight" not in get_model_state_dict(model, options=options)
    assert "0.weight" in get_model_state_dict(model)


@pytest.mark.parametrize("kind", [rl.optim.AdamW, rl.optim.Rprop, rl.optim.SGD])
def test_an_optimizer_that_has_made_no_step_has_a_state_to_load_into(tmp_path, kind):
    """It is what the first step begins with: saved, it goes on as a new one does; the optimizer keeps none of it."""

    def step(model, optimizer):
        optimizer.zero_grad()
        model(rl.arange(16.0).view(4, 4)).square().mean().backward()
        optimizer.step()

    def fresh(seed):
        model = fully_shard(make(seed))
        return model, kind(model.parameters(), lr=0.1)

    def go_on(steps, folder):
        model, optimizer = fresh(0)
        for _ in range(steps):
            step(model, optimizer)
        saved = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        checkpoint.save(saved, folder)
        other, begun = fresh(1)
        state = dict(zip(("model", "optimizer"), get_state_dict(other, begun), strict=True))
        assert not begun.state
        checkpoint.load(state, folder)
        set_state_dict(other, begun, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        for one in ((model, optimizer), (other, begun)):
            step(*one)
        pairs = zip(model.parameters(), other.parameters(), strict=True)
        return all(rl.equal(one.full_tensor(), two.full_tensor()) for one, two in pairs)

    for steps in (0, 2):
        assert dist.spawn(go_on, 2, (steps, str(tmp_path / str(steps)))) == [True, True]
