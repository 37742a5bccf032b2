"""Functions that are kept out of graphs, stances, compiled functions in each other, and decorators."""

import asyncio
import copy

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.compiler import set_stance
from rushlight.support import events
from rushlight.support.errors import CompileError, RushlightError

SEEN = []


@rl.compiler.disable(reason="it keeps a log")
def logs(x):
    SEEN.append((rl.compiler.is_compiling(), x.sum().item()))
    return x * 2


def calls(x):
    return logs(x + 1) + 1


@pytest.fixture(autouse=True)
def fresh():
    SEEN.clear()
    rl.compiler.reset()
    events.reset()
    yield
    set_stance("default")


@pytest.mark.parametrize("options", [{}, {"fullgraph": False}], ids=str)
def test_a_disabled_function_runs_in_python_between_graphs(options):
    compiled = rl.compile(calls, **options)
    for value in (1.0, 2.0, 3.0):
        x = rl.full((3,), value, requires_grad=True)
        result = compiled(x)
        assert result.tolist() == [2 * value + 3] * 3
        result.sum().backward()
        assert x.grad.tolist() == [2.0] * 3
    assert SEEN == [(False, 6.0), (False, 9.0), (False, 12.0)]
    found = [event for event in events.events("graph_break") if event.code == "B021"]
    assert [str(event.frame).partition("  ")[2] for event in found] == ["return logs(x + 1) + 1"]
    assert rl.compiler.graph_count() == 2


def test_a_disabled_function_in_one_graph_is_an_error_with_the_users_line():
    with pytest.raises(CompileError, match="logs is kept out of graphs: it keeps a log") as caught:
        rl.compile(calls, fullgraph=True)(rl.ones(3))
    assert caught.value.code == "C039"
    assert caught.value.frame.function == "calls"
    assert SEEN == []


def test_graph_break_ends_a_graph():
    def two(x):
        y = x + 1
        rl.compiler.graph_break()
        return y * 2

    assert rl.compile(two)(rl.ones(2)).tolist() == two(rl.ones(2)).tolist()
    assert rl.compiler.graph_count() == 2


def test_what_can_be_disabled():
    class Holder:
        scale = 3

        @rl.compiler.disable
        def method(self, x):
            return x * self.scale

        @rl.compiler.disable
        @staticmethod
        def fixed(x):
            return x * 2

        @classmethod
        @rl.compiler.disable
        def of_class(cls, x):
            return x * cls.scale

    class Net(nn.Module):
        def forward(self, x):
            SEEN.append(rl.compiler.is_compiling())
            return x + 1

    @rl.compiler.disable
    class Made:
        def __init__(self, x):
            self.x = x

    holder, net = Holder(), rl.compiler.disable(Net())

    def program(x):
        return holder.method(x) + Holder.fixed(x) + Holder.of_class(x) + net(x) + Made(x).x

    assert rl.compile(program)(rl.ones(2)).tolist() == [11.0, 11.0]
    assert SEEN == [False]
    assert rl.compile(holder.method)(rl.ones(1)).item() == 3.0
    with pytest.raises(RushlightError, match="disable: a function"):
        rl.compiler.disable(3)


def test_what_is_allowed_and_what_is_constant():
    @rl.compiler.allow_in_graph
    def allowed(x):
        SEEN.append("traced")
        return x * 2

    @rl.compiler.assume_constant_result
    def constant():
        SEEN.append(rl.compiler.is_compiling())
        return rl.ones(2).sum().item()

    @rl.compile(fullgraph=True)
    def program(x):
        return allowed(x) * constant()

    for _ in range(3):
        assert program(rl.ones(2)).tolist() == [4.0, 4.0]
    assert SEEN == ["traced", False]


def test_stances():
    def known(x):
        return x + 1

    compiled = rl.compile(known)
    with set_stance("eager_on_recompile"):
        compiled(rl.ones(2))
    assert rl.compiler.graph_count() == 0
    compiled(rl.ones(2))
    assert rl.compiler.graph_count() == 1
    with set_stance("fail_on_recompile"):
        compiled(rl.ones(5))
        with pytest.raises(CompileError, match="known would be compiled") as caught:
            compiled(rl.ones(5, 2))
        assert caught.value.code == "C040"
    with set_stance("force_eager"), set_stance("default"):
        compiled(rl.ones(5, 2))
    assert rl.compiler.graph_count() == 2

    @set_stance("force_eager")
    def outer(x):
        return rl.compile(known)(x)

    for _ in range(2):
        assert outer(rl.ones(2)).tolist() == [2.0, 2.0]
    assert rl.compiler.graph_count() == 2
    set_stance("force_eager")
    rl.compile(known)(rl.ones(2))
    set_stance("default")
    assert rl.compiler.graph_count() == 2
    with pytest.raises(RushlightError, match="set_stance: there is no such stance"):
        set_stance("lazy")


def test_stances_of_functions_in_parts():
    def parts(x):
        y = x + 1
        return y * 2 if y.sum() > 0 else y - 1

    compiled = rl.compile(parts, fullgraph=False)
    with set_stance("eager_on_recompile"):
        assert compiled(rl.ones(2)).tolist() == [4.0, 4.0]
    assert rl.compiler.graph_count() == 0
    compiled(rl.ones(2))
    graphs = rl.compiler.graph_count()
    with set_stance("eager_on_recompile"):
        assert compiled(-rl.ones(2, 2) * 3).tolist() == [[-3.0, -3.0]] * 2
    assert rl.compiler.graph_count() == graphs
    with set_stance("fail_on_recompile"):
        compiled(rl.ones(2))
        with pytest.raises(CompileError, match="would be compiled"):
            compiled(rl.ones(2, 2))
    assert compiled(rl.ones(2, 2)).tolist() == [[4.0, 4.0]] * 2


@pytest.mark.parametrize("options", [{}, {"fullgraph": False}], ids=str)
def test_compiled_functions_call_compiled_functions(options):
    @rl.compile(**options)
    def inner(x):
        return x * 2 + 1

    @rl.compile(**options)
    def outer(x):
        return inner(x + 1) * inner(x)

    for value in (1.0, 2.0):
        x = rl.full((3,), value, requires_grad=True)
        outer(x).sum().backward()
        assert x.grad.tolist() == [8 * value + 8] * 3


class Choosing(nn.Module):
    """A module that asks for a value."""

    def forward(self, x):
        return x if x.sum() > 0 else -x

    @rl.compile(fullgraph=True)
    def method(self, x):
        return self.forward(x)


choosing = rl.compile(Choosing().forward, fullgraph=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: choosing(x + 1) * 2,
        lambda x: rl.compile(Choosing(), fullgraph=True)(x + 1) * 2,
        lambda x: Choosing().method(x + 1) * 2,
        lambda x: [choosing(x + step) for step in range(2)],
        lambda x: list(map(choosing, [x, x + 1])),
    ],
)
def test_what_is_promised_to_be_one_graph_is_refused_in_parts_of_others_too(function):
    compiled = rl.compile(function)
    for _ in range(2):
        with pytest.raises(RushlightError) as caught:
            compiled(rl.ones(3))
        assert caught.value.code == "C002"


def test_specifications_and_frozen_weights_count_in_parts_of_others():
    @rl.compile(specs="f32[B, T] where B >= 2")
    def folded(x):
        return x * 2

    compiled = rl.compile(lambda x: folded(x + 1) + 1)
    assert rl.equal(compiled(rl.ones(2, 3)), rl.full((2, 3), 5.0))
    with pytest.raises(RushlightError) as caught:
        compiled(rl.ones(1, 3))
    assert caught.value.code == "C022"
    norm = rl.compile(nn.BatchNorm1d(3), freeze=True)
    with pytest.raises(RushlightError) as caught:
        rl.compile(lambda x: norm(x + 1))(rl.ones(2, 3))
    assert caught.value.code == "C016"


def test_stances_that_a_function_takes_are_those_of_each_call():
    double = rl.compile(lambda x: x * 2, fullgraph=True)

    @rl.compile
    def function(x):
        set_stance("force_eager")
        try:
            return double(x)
        finally:
            set_stance("default")

    def graphs():
        return len(double.traces())

    for _ in range(3):
        assert function(rl.ones(3)).tolist() == [2.0] * 3 and graphs() == 0

    @rl.compile
    def refusing(x):
        with set_stance("fail_on_recompile"):
            return double(x)

    for _ in range(3):
        with pytest.raises(CompileError) as caught:
            refusing(rl.ones(3))
        assert caught.value.code == "C040"


def test_marks_that_a_function_sets_are_those_of_the_tensors_of_the_call():
    def three(x):
        return x + 1 if x.shape[0] == 3 else x

    @rl.compile
    def marks(x):
        y = x * 2
        rl.compiler.mark_dynamic(y, 0)
        return three(y)

    with pytest.raises(RushlightError) as caught:
        marks(rl.ones(3, 2))
    assert caught.value.code == "C011"


@pytest.mark.parametrize("options", [{}, {"fullgraph": False}], ids=str)
def test_decorators_on_methods_and_properties(options):
    compiled = rl.compile(**options)

    class Holder:
        scale = 3.0

        def __init__(self, start):
            self.start = rl.tensor(start)

        @compiled
        def method(self, x, *, power=1):
            return (x * self.scale + self.start) ** power

        @staticmethod
        @compiled
        def fixed(x):
            return x * 2

        @compiled
        @staticmethod
        def fixed_outside(x):
            return x * 2

        @classmethod
        @compiled
        def of_class(cls, x):
            return x * cls.scale

        @compiled
        @classmethod
        def of_class_outside(cls, x):
            return x * cls.scale

        @property
        @compiled
        def doubled(self):
            return self.start * 2

    x = rl.ones(2)
    for start in (1.0, 5.0):
        holder = Holder(start)
        assert holder.method(x, power=2).tolist() == [(3 + start) ** 2] * 2
        assert holder.fixed(x).tolist() == Holder.fixed_outside(x).tolist() == [2.0, 2.0]
        assert holder.of_class(x).tolist() == Holder.of_class_outside(x).tolist() == [3.0, 3.0]
        assert holder.doubled.item() == 2 * start


def test_generators_and_coroutines_run_as_they_are_with_a_reason():
    @rl.compile
    def numbers(x):
        for row in x:
            yield row * 2

    @rl.compile(fullgraph=False)
    async def later(x):
        await asyncio.sleep(0)
        return x + 1

    assert [row.item() for row in numbers(rl.ones(2))] == [2.0, 2.0]
    assert asyncio.run(later(rl.ones(1))).item() == 2.0
    assert [event.code for event in events.events("graph_break")] == ["B008", "B008"]
    with pytest.raises(CompileError, match="is a generator or coroutine function"):
        rl.compile(lambda x: (yield x), fullgraph=True)


@pytest.mark.parametrize("options", [{}, {"fullgraph": False}], ids=str)
def test_a_module_compiles_itself_in_place(options):
    rl.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = rl.rand(5, 3)
    expected = net(x).tolist()
    assert net.compile(**options) is None
    assert net(x).tolist() == expected
    assert rl.compiler.graph_count() == 1
    handle = net.register_forward_hook(lambda module, args, output: output * 2)
    assert net(x).tolist() == [[value * 2 for value in row] for row in expected]
    handle.remove()
    assert net(x).tolist() == expected
    assert copy.deepcopy(net)(x).tolist() == expected
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


@pytest.mark.parametrize("options", [{}, {"fullgraph": False}], ids=str)
def test_hooks_run_as_in_eager_code_when_they_come_and_go(options):
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    compiled = rl.compile(net, **options)
    x = rl.ones(1, 2)

    def tripled(parameter):
        parameter.grad.mul_(3)

    def outcome(run):
        net.zero_grad()
        result = run(x)
        result.sum().backward()
        return result.tolist(), [p.grad.tolist() for p in net.parameters()]

    added = [
        lambda: net[0].register_forward_pre_hook(lambda module, args: (args[0] * 3,)),
        lambda: net[1].register_forward_hook(lambda module, args, output: output + 1),
        lambda: net[0].register_full_backward_hook(lambda module, given, got: None),
        lambda: net[0].weight.register_hook(lambda gradient: gradient * 2),
        lambda: net[1].bias.register_post_accumulate_grad_hook(tripled),
    ]
    handles = []
    for add in added:
        handles.append(add())
        assert outcome(compiled) == outcome(net)
    for handle in handles:
        handle.remove()
        assert outcome(compiled) == outcome(net)


def test_names_of_the_alias():
    from rushlight.torch.modules import _dynamo

    assert _dynamo.disable is rl.compiler.disable
    with _dynamo.config.patch(cache_size_limit=64, anything=True):
        assert _dynamo.config.cache_size_limit == 64
    assert _dynamo.config.cache_size_limit == 8
    assert not hasattr(_dynamo.config, "anything")
    assert "cudagraphs" in rl.compiler.list_backends()
    assert rl.compiler.substitute_in_graph(len)(abs) is abs
    rl.compiler.cudagraph_mark_step_begin()
