"""`pipeline`: models cut into stages at split points train as the whole model does."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleZeroBubble
from rushlight.fx.pipelining import SplitPoint, build_stage, pipe_split, pipeline


class Block(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = rl.nn.Linear(6, 6)

    def forward(self, x):
        if x.sum().item() > 1e9:  # only a module that is kept whole may ask
            return x
        return x + self.layer(x).tanh()


class Model(rl.nn.Module):
    """Numbers of the input, and the input itself, are used again at the end; so is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        rl.manual_seed(0)
        self.embed = rl.nn.Linear(3, 6)
        self.blocks = rl.nn.ModuleList([Block() for _ in range(4)])
        self.head = rl.nn.Linear(6, 2)
        self.register_buffer("factor", rl.tensor(0.5))

    def forward(self, x, bias=None):
        b, t, _ = x.size()
        h = self.embed(x) * self.factor
        for block in self.blocks:
            h = block(h)
        out = self.head(h.reshape(b * t, 6)).view(b, t, 2) + x[..., :2] * self.factor
        return out if bias is None else out + bias


def loss(out, target):
    return (out - target).square().mean()


def example(rows: int = 2):
    return rl.linspace(-1, 1, rows * 5 * 3).view(rows, 5, 3)


SPECS = {
    "beginning": {"blocks.2": SplitPoint.BEGINNING},
    "end": {"blocks.1": SplitPoint.END},
    "inner": {"blocks.2": SplitPoint.BEGINNING, "head": SplitPoint.BEGINNING},
    "four": {"blocks.0": SplitPoint.END, "blocks.1": SplitPoint.END, "blocks.3": SplitPoint.BEGINNING},
}


@pytest.mark.parametrize("name", SPECS)
def test_the_stages_together_are_the_model_and_share_its_names(name: str) -> None:
    model = Model()
    pipe = pipeline(model, (example(),), split_spec=SPECS[name])
    assert pipe.num_stages == len(SPECS[name]) + 1 == pipe.info().num_stages
    assert rl.equal(pipe(example(3)), model(example(3)))
    names = [key for at in range(pipe.num_stages) for key, _ in pipe.get_stage_module(at).named_parameters()]
    assert names == [key for key, _ in model.named_parameters()]
    assert not pipe.info().has_loss_and_backward


@pytest.mark.parametrize("kind", [ScheduleGPipe, Schedule1F1B, ScheduleZeroBubble])
@pytest.mark.parametrize(("name", "ranks"), [("beginning", 2), ("inner", 3)])
def test_gradients_are_those_of_the_model(name: str, ranks: int, kind) -> None:
    model = Model()
    x, y = example(4), rl.ones(4, 5, 2)
    loss(model(x), y).backward()
    wanted = {key: one.grad for key, one in model.named_parameters()}

    def run():
        rank = dist.get_rank()
        stage = pipeline(Model(), (example(1),), split_spec=SPECS[name]).build_stage(rank, "cpu")
        losses = []
        out = kind(stage, 4, loss).step(*((x,) if rank == 0 else ()), target=y, losses=losses)
        found = {key: one.grad for key, one in stage.submodule.named_parameters()}
        return found, out, losses

    found = dist.spawn(run, ranks)
    grads = {key: one for part, _, _ in found for key, one in part.items()}
    assert grads.keys() == wanted.keys()
    assert all(rl.allclose(grads[key], wanted[key], atol=1e-6) for key in wanted)
    assert rl.allclose(found[-1][1], model(x)) and len(found[-1][2]) == 4


def test_results_are_not_kept_where_nobody_wants_them() -> None:
    def run():
        rank = dist.get_rank()
        stage = pipeline(Model(), (example(1),), split_spec=SPECS["end"]).build_stage(rank, "cpu")
        losses = []
        inputs = (example(2),) if rank == 0 else ()
        out = ScheduleGPipe(stage, 2, loss).step(*inputs, target=rl.ones(2, 5, 2), losses=losses, return_outputs=False)
        return out, len(losses), all(one.grad is not None for one in stage.submodule.parameters())

    assert dist.spawn(run, 2) == [(None, 0, True), (None, 2, True)]


def test_a_model_marks_its_stages_itself() -> None:
    class Marked(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = rl.nn.Linear(3, 4), rl.nn.Linear(4, 2)

        def forward(self, x):
            h = self.a(x).relu()
            pipe_split()
            return self.b(h)

    model = Marked()
    assert model(rl.ones(2, 3)).shape == (2, 2)
    pipe = pipeline(model, (rl.ones(2, 3),))
    assert pipe.num_stages == 2 and rl.equal(pipe(rl.ones(2, 3)), model(rl.ones(2, 3)))


def test_a_policy_puts_marks_into_the_graph() -> None:
    def policy(module):
        calls = [node for node in module.graph.nodes if node.op == "call_module"]
        with module.graph.inserting_before(calls[len(calls) // 2]):
            module.graph.call_function(pipe_split)
        return module

    model = rl.nn.Sequential(rl.nn.Linear(3, 3), rl.nn.ReLU(), rl.nn.Linear(3, 3), rl.nn.Tanh())
    pipe = pipeline(model, (rl.ones(1, 3),), split_policy=policy)
    assert [len(list(pipe.get_stage_module(at).children())) for at in range(2)] == [2, 2]
    assert rl.equal(pipe(rl.ones(2, 3)), model(rl.ones(2, 3)))


def test_keyword_arguments_and_defaults() -> None:
    model = Model()
    pipe = pipeline(model, (example(),), {"bias": rl.ones(2)}, split_spec=SPECS["end"])
    assert rl.equal(pipe(example(), bias=rl.ones(2) * 3), model(example(), rl.ones(2) * 3))


def test_buffers_and_random_numbers_stay_what_they_are() -> None:
    model = rl.nn.Sequential(rl.nn.BatchNorm1d(3), rl.nn.Dropout(0.5), rl.nn.Linear(3, 2))
    state, before = rl.get_rng_state(), model[0].running_mean.clone()
    pipeline(model, (rl.randn(4, 3),), split_spec={"2": SplitPoint.BEGINNING})
    rl.set_rng_state(state)
    drawn = rl.rand(3)
    rl.set_rng_state(state)
    example = rl.randn(4, 3)
    pipeline(model, (example,), split_spec={"2": SplitPoint.BEGINNING})
    after = rl.get_rng_state()
    rl.set_rng_state(state)
    rl.randn(4, 3)
    assert rl.equal(after, rl.get_rng_state()) and rl.equal(model[0].running_mean, before) and drawn.shape == (3,)


def test_ranks_without_data_know_what_comes() -> None:
    dist.init_process_group("fake", rank=1, world_size=3)
    try:
        pipe = pipeline(Model(), (example(),), split_spec=SPECS["inner"])
        stage = build_stage(pipe.get_stage_module(1), 1, pipe.info(), "cpu")
        assert [tuple(one.shape) for one in stage.input_args] == [(2, 5, 3), (2, 5, 6)]
    finally:
        dist.destroy_process_group()


class Tied(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = rl.nn.Linear(3, 3), rl.nn.Linear(3, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


class Passing(rl.nn.Module):
    """What goes on is a pair that nobody has opened."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = rl.nn.LSTM(3, 3), rl.nn.Module()
        self.c = rl.nn.Linear(3, 3)
        self.last = Last()

    def forward(self, x):
        pair = self.a(x)
        return self.last(self.c(x), pair)


class Last(rl.nn.Module):
    def forward(self, x, pair):
        return x + pair[0]


@pytest.mark.parametrize(
    ("model", "options", "code", "told"),
    [
        (Tied, {"split_spec": {"b": SplitPoint.BEGINNING}}, "A006", "share the parameter a.weight"),
        (Model, {"split_spec": {"blocks.9": SplitPoint.END}}, "A002", "no module is named 'blocks.9'"),
        (Model, {"split_spec": {"head": "end"}}, "A001", "needs a SplitPoint"),
        (Tied, {"split_spec": {"b": SplitPoint.END}}, "A002", "calls nothing"),
        (Tied, {"split_spec": {}, "split_policy": lambda module: module}, "A002", "not both"),
        (Tied, {"split_policy": lambda module: None}, "A001", "returns a GraphModule"),
        (Passing, {"split_spec": {"c": SplitPoint.BEGINNING}}, "A006", "reads a, a tuple"),
    ],
)
def test_what_cannot_be_cut_is_said(model, options, code: str, told: str) -> None:
    shape = (2, 5, 3)
    with pytest.raises(rl.RushlightError, match=told) as found:
        pipeline(model(), (rl.ones(*shape),), **options)
    assert found.value.code == code


def test_other_numbers_of_arguments_are_said() -> None:
    with pytest.raises(rl.RushlightError, match="other arguments than the model"):
        pipeline(Model(), (), split_spec=SPECS["end"])
    pipe = pipeline(Model(), (example(),), split_spec=SPECS["end"])
    with pytest.raises(rl.RushlightError, match="stage 2 of 2"):
        pipe.get_stage_module(2)
