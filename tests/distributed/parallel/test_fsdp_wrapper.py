"""`FullyShardedDataParallel`, its policies and states; hooks of data parallelism; recomputed parts."""

import functools

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from rushlight.distributed.fsdp import (
    CPUOffload,
    FSDPModule,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
    wrap,
)
from rushlight.distributed.tensor import DTensor
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.utils.checkpoint.wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)


class Block(rl.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = rl.nn.Linear(width, 2 * width)
        self.down = rl.nn.Linear(2 * width, width)
        self.register_buffer("scale", rl.ones(width))

    def forward(self, x):
        return x + self.scale * self.down(rl.nn.functional.gelu(self.up(x)))


class Model(rl.nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        rl.manual_seed(seed)
        self.blocks = rl.nn.ModuleList([Block(6), Block(6)])
        self.head = rl.nn.Linear(6, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch():
    return rl.arange(48.0).view(8, 6).sin()


def steps(model, x, count=3, clip=None):
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
    norms = []
    for _ in range(count):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if clip:
            norms.append(clip(model).item())
        optimizer.step()
    return optimizer, norms


def alone(count=3, **options):
    model = Model()
    _, norms = steps(model, batch(), count, **options)
    return model.state_dict(), norms


POLICIES = {
    "none": None,
    "classes": wrap.ModuleWrapPolicy({Block}),
    "transformer": functools.partial(wrap.transformer_auto_wrap_policy, transformer_layer_cls={Block}),
    "size": functools.partial(wrap.size_based_auto_wrap_policy, min_num_params=80),
    "always": wrap.always_wrap_policy,
    "lambda": functools.partial(wrap.lambda_auto_wrap_policy, lambda_fn=lambda part: isinstance(part, Block)),
    "custom": wrap.CustomPolicy(lambda part: isinstance(part, rl.nn.Linear) and {"mixed_precision": None}),
}


@pytest.mark.parametrize("name", POLICIES)
def test_training_gives_what_one_process_gives(name):
    wanted, norms = alone(clip=lambda model: rl.nn.utils.clip_grad_norm_(model.parameters(), 0.5))

    def train():
        model = FullyShardedDataParallel(
            Model(dist.get_rank()), auto_wrap_policy=POLICIES[name], sync_module_states=True
        )
        units = sum(isinstance(one, FSDPModule) for one in model.modules())
        _, found = steps(model, batch().chunk(2)[dist.get_rank()], clip=lambda model: model.clip_grad_norm_(0.5))
        return units, model.state_dict(), found

    for units, state, found in dist.spawn(train, 2):
        assert units == {"none": 1, "always": 9, "custom": 6}.get(name, 3)
        assert list(state) == list(wanted) and not any(isinstance(one, DTensor) for one in state.values())
        assert all(rl.allclose(state[key], wanted[key], atol=1e-5) for key in wanted)
        assert found == pytest.approx(norms, rel=1e-5)


@pytest.mark.parametrize("strategy", ShardingStrategy)
def test_strategies(strategy):
    wanted, _ = alone()

    def train():
        model = FullyShardedDataParallel(
            Model(), sharding_strategy=strategy, cpu_offload=CPUOffload(True), auto_wrap_policy=POLICIES["classes"]
        )
        steps(model, batch().chunk(2)[dist.get_rank()])
        return tuple(model.head.weight.to_local().shape), model.state_dict()

    for shape, state in dist.spawn(train, 2):
        assert all(rl.allclose(state[key], wanted[key], atol=1e-5) for key in wanted)
        assert (shape == (3, 6)) == (strategy is ShardingStrategy.NO_SHARD)


def test_states_of_models_and_optimizers():
    def train():
        fsdp = FullyShardedDataParallel
        model = fsdp(Model(), auto_wrap_policy=POLICIES["classes"])
        x = batch().chunk(2)[dist.get_rank()]
        optimizer, _ = steps(model, x)
        with fsdp.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            sharded = model.state_dict()
            moments = fsdp.optim_state_dict(model, optimizer)
        assert isinstance(sharded["head.weight"], DTensor)
        assert isinstance(moments["state"]["head.weight"]["exp_avg"], DTensor)
        whole = model.state_dict()
        full = fsdp.full_optim_state_dict(model, optimizer, rank0_only=False)
        with fsdp.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(True, True)):
            assert len(model.state_dict()) == (len(whole) if dist.get_rank() == 0 else 0)
        with (
            pytest.raises(rl.RushlightError, match="flattened"),
            fsdp.state_dict_type(model, StateDictType.LOCAL_STATE_DICT),
        ):
            model.state_dict()
        outcomes = []
        for state, kept in ((whole, full), (sharded, moments)):
            other = fsdp(Model(5))
            other.load_state_dict(state)
            again = rl.optim.AdamW(other.parameters(), lr=0.05)
            again.load_state_dict(fsdp.optim_state_dict_to_load(other, again, kept))
            other(x).square().mean().backward()
            again.step()
            outcomes.append(other.state_dict()["blocks.0.up.weight"])
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        return [rl.allclose(one, model.state_dict()["blocks.0.up.weight"]) for one in outcomes]

    assert dist.spawn(train, 2) == [[True, True]] * 2


def test_summoned_parameters_are_written_back():
    def run():
        model = FullyShardedDataParallel(Model(), auto_wrap_policy=POLICIES["classes"])
        with FullyShardedDataParallel.summon_full_params(model), rl.no_grad():
            assert tuple(model.head.weight.shape) == (3, 6) and not isinstance(model.head.weight, DTensor)
            model.head.weight.fill_(2)
        with FullyShardedDataParallel.summon_full_params(model, writeback=False), rl.no_grad():
            model.head.bias.fill_(7)
        model.apply(lambda part: part.weight.mul_(3) if isinstance(part, rl.nn.Linear) else None)
        state = model.state_dict()
        return state["head.weight"].unique().tolist(), bool((state["head.bias"] == 7).any())

    assert dist.spawn(run, 2) == [([6.0], False)] * 2


def test_gradients_without_exchange_are_added_up():
    def train():
        x = batch().chunk(2)[dist.get_rank()]
        model = FullyShardedDataParallel(Model())
        with model.no_sync():
            model(x[:2]).square().sum().backward()
        model(x[2:]).square().sum().backward()
        other = FullyShardedDataParallel(Model())
        other(x).square().sum().backward()
        return rl.allclose(model.head.weight.grad.full_tensor(), other.head.weight.grad.full_tensor(), atol=1e-5)

    assert dist.spawn(train, 2) == [True, True]


def test_precision_and_models_without_data():
    def train():
        with rl.device("meta"):
            model = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.BatchNorm1d(4))
        precision = MixedPrecision(param_dtype=rl.bfloat16, reduce_dtype=rl.float32, buffer_dtype=rl.bfloat16)
        model = FullyShardedDataParallel(model, mixed_precision=precision)
        out = model(rl.ones(4, 4))
        summoned = FullyShardedDataParallel.summon_full_params(model)
        with pytest.raises(rl.RushlightError, match="another dtype"), summoned:
            pass
        return out.dtype, model[1].running_mean.dtype, model[0].weight.dtype

    assert dist.spawn(train, 2) == [(rl.bfloat16, rl.bfloat16, rl.float32)] * 2


def test_wrappers_within_others_have_the_names_of_the_model():
    def run():
        rl.manual_seed(0)
        plain = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.Linear(4, 4))
        wanted = {name: value.clone() for name, value in plain.state_dict().items()}
        inner = FullyShardedDataParallel(plain[0])
        model = FullyShardedDataParallel(rl.nn.Sequential(inner, plain[1]))
        assert [name for name, _ in model.named_parameters()] == list(wanted)
        state = model.state_dict()
        assert list(state) == list(wanted) and all(rl.equal(state[name], wanted[name]) for name in wanted)
        model.load_state_dict({name: value + 1 for name, value in wanted.items()})
        state = model.state_dict()
        assert all(rl.equal(state[name], wanted[name] + 1) for name in wanted)
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            assert all(isinstance(one, DTensor) for one in model.state_dict().values())
        with pytest.raises(rl.RushlightError, match="Missing key"):
            model.load_state_dict({"0.weight": wanted["0.weight"]})
        return True

    assert dist.spawn(run, 2) == [True, True]


def test_layers_are_wrapped_where_that_is_enabled():
    def run():
        assert type(wrap.wrap(rl.nn.Linear(2, 2))) is rl.nn.Linear
        with wrap.enable_wrap(wrapper_cls=FullyShardedDataParallel):
            return isinstance(wrap.wrap(rl.nn.Linear(2, 2)), FullyShardedDataParallel)

    assert dist.spawn(run, 2) == [True, True]


@pytest.mark.parametrize("implementation", CheckpointImpl)
def test_recomputed_parts_keep_their_names_and_gradients(implementation):
    wanted, again = Model(), Model()
    calls = []
    again.blocks[0].up.register_forward_hook(lambda *_: calls.append(1))
    wrapper = functools.partial(checkpoint_wrapper, checkpoint_impl=implementation)
    apply_activation_checkpointing(again, wrapper, check_fn=lambda part: isinstance(part, Block))
    x = batch().requires_grad_()
    for model in (wanted, again):
        model(x).square().sum().backward()
    assert len(calls) == 2 and list(again.state_dict()) == list(wanted.state_dict())
    assert isinstance(again.blocks[0], CheckpointWrapper) and isinstance(again.blocks[0], Block)
    pairs = zip(wanted.parameters(), again.parameters(), strict=True)
    assert all(rl.equal(one.grad, other.grad) for one, other in pairs)
    with pytest.raises(rl.RushlightError, match="wrapped already"):
        checkpoint_wrapper(again.blocks[0])


def reduced_at_once(state, bucket):
    dist.all_reduce(bucket.buffer().div_(dist.get_world_size()))
    return bucket.buffer()


HOOKS = {
    "allreduce": (default_hooks.allreduce_hook, 1e-6),
    "fp16": (default_hooks.fp16_compress_hook, 2e-3),
    "bf16": (default_hooks.bf16_compress_hook, 2e-2),
    "fp16 around": (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 2e-3),
    "fp16 around a tensor": (default_hooks.fp16_compress_wrapper(reduced_at_once), 2e-3),
    "bf16 around": (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), 2e-2),
}


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_reduce_gradients(name):
    hook, bound = HOOKS[name]
    plain = Model()
    plain(batch()).square().mean().backward()

    def train():
        model = DistributedDataParallel(Model())
        model.register_comm_hook(None, hook)
        for _ in range(2):
            model.zero_grad()
            model(batch().chunk(2)[dist.get_rank()]).square().mean().backward()
        return [one.grad for one in model.parameters()]

    first, second = dist.spawn(train, 2)
    for one, other, wanted in zip(first, second, [one.grad for one in plain.parameters()], strict=True):
        assert rl.equal(one, other) and one.dtype is wanted.dtype
        assert (one - wanted).abs().max() <= bound * max(1.0, wanted.abs().max().item())


def test_products_of_narrow_matrices_stand_for_gradients():
    """A matrix of rank 1 is sent without loss; of others, what is left out comes with later steps."""
    rl.manual_seed(0)
    weight = rl.randn(12, 12)

    def run(rank_of, steps):
        return dist.spawn(train, 2, (rank_of, steps))

    def train(rank_of, steps):
        target = rl.outer(weight[0], weight[1]) if rank_of == 1 else weight
        model = DistributedDataParallel(Scaled())
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        total = rl.zeros(12, 12)
        for step in range(steps):
            model.zero_grad()
            model(target * (dist.get_rank() + 1.0)).backward()
            total += model.module.weight.grad if step >= 2 else 0
        return total / max(1, steps - 2), target * 1.5, state.compression_stats()[0]

    for total, wanted, rate in run(1, 4):
        assert rl.allclose(total, wanted, atol=1e-4) and rate > 2
    errors = [((total - wanted).norm() / wanted.norm()).item() for total, wanted, _ in run(12, 102)[:1]]
    rough = [((total - wanted).norm() / wanted.norm()).item() for total, wanted, _ in run(12, 3)[:1]]
    assert errors[0] < 0.2 < rough[0]


class Scaled(rl.nn.Module):
    def __init__(self):
        super().__init__()
        rl.manual_seed(1)
        self.weight = rl.nn.Parameter(rl.zeros(12, 12))
        self.bias = rl.nn.Parameter(rl.zeros(12))

    def forward(self, x):
        return (self.weight * x).sum() + self.bias.sum()
