"""Graphs of nodes: traced, walked, edited, printed as Python, run, and made of compiled graphs and back."""

import copy
import operator
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import fx, nn
from rushlight.eager.pytree import flatten_tree, unflatten_tree
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.lowered import graph_of
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.ir.text import format_graph
from rushlight.nn import functional as F
from rushlight.ops import OPERATORS
from rushlight.ops.record import Fact
from rushlight.support.errors import RushlightError
from rushlight.utils._python_dispatch import TorchDispatchMode
from tensors import same


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.weight = nn.Parameter(rl.ones(3))
        self.register_buffer("shift", rl.full((3,), 0.5))

    def forward(self, x, *, scale=2.0):
        first, second = rl.split(self.layers(x) * self.weight + self.shift, 2, dim=-1)
        return first.sum(-1) * scale, {"second": second[..., 0]}


def traced():
    rl.manual_seed(0)
    net = Net()
    return net, fx.symbolic_trace(net)


def test_a_module_is_traced_with_its_layers_as_nodes_and_gives_what_it_gave():
    net, module = traced()
    x = rl.rand(5, 4)
    (one, others), (expected, rest) = module(x), net(x)
    same(one, expected)
    same(others["second"], rest["second"])
    kinds = [(node.op, node.target) for node in module.graph.nodes]
    assert ("call_module", "layers.0") in kinds and ("get_attr", "weight") in kinds
    assert dict(module.named_parameters()).keys() == dict(net.named_parameters()).keys()
    assert module.weight is net.weight


def test_code_is_python_that_gives_the_same():
    module = fx.symbolic_trace(lambda x, y=3: (x + y) / rl.relu(x).sum(0, keepdim=True) ** 2 - x[..., 1:])
    namespace = dict(module.graph.python_code("self").globals)
    exec(module.code, namespace)
    x = rl.rand(2, 1) + 1
    same(namespace["forward"](None, x), module(x))
    assert "def forward(self, x, y = 3):" in module.code
    assert "add = x + y;  y = None" in module.code
    shown = module.print_readable(print_output=False)
    assert shown.startswith("class")


def test_tables_and_lines_show_nodes(capsys):
    module = fx.symbolic_trace(lambda x: rl.relu(x) + 1)
    module.graph.print_tabular()
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["opcode", "name", "target", "args", "kwargs"]
    assert [row.split()[0] for row in rows] == ["placeholder", "call_function", "call_function", "output"]
    assert "return %add" in str(module.graph)


def test_nodes_know_their_users_and_what_they_read():
    graph = fx.symbolic_trace(lambda x: rl.relu(x) + x).graph
    x, relu, add, output = graph.nodes
    assert list(x.users) == [relu, add] and add.all_input_nodes == [relu, x]
    assert (relu.prev, relu.next, output.args) == (x, add, (add,))
    assert graph.output_node() is output
    assert graph.find_nodes(op="call_function", target=rl.relu) == [relu]


def test_edits_change_what_the_module_gives():
    module = fx.symbolic_trace(lambda x: rl.relu(x) + 1)
    graph = module.graph
    relu = graph.find_nodes(op="call_function", target=rl.relu)[0]
    with graph.inserting_after(relu):
        tanh = graph.call_function(rl.tanh, relu.args)
    relu.replace_all_uses_with(tanh)
    graph.erase_node(relu)
    graph.lint()
    assert module(rl.tensor([-1.0])).item() == 1.0  # as before, until it is recompiled
    module.recompile()
    same(module(rl.tensor([-1.0])), rl.tanh(rl.tensor([-1.0])) + 1)


def test_dead_code_goes_and_writes_stay():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(rl.exp, (x,))
    graph.call_method("add_", (x, 1))
    graph.output(x)
    assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
    assert [node.op for node in graph.nodes] == ["placeholder", "call_method", "output"]


@pytest.mark.parametrize("fault", ["order", "name", "attribute", "foreign", "erased", "argument"])
def test_a_graph_that_is_not_well_formed_is_refused(fault):
    module = fx.symbolic_trace(lambda x: rl.relu(x) + 1)
    graph = module.graph
    x, relu, add, _ = graph.nodes

    def broken():
        if fault == "order":
            relu.args = (add,)
        elif fault == "name":
            relu.name = x.name
        elif fault == "attribute":
            with graph.inserting_before(add):
                graph.get_attr("weight")
        elif fault == "foreign":
            graph.call_function(rl.relu, (fx.Graph().placeholder("x"),))
        elif fault == "erased":
            graph.erase_node(relu)
        else:
            graph.call_function(rl.cat, ([x, x],)).args[0].append(x)
        graph.lint()

    with pytest.raises(RushlightError) as caught:
        broken()
    assert caught.value.code in ("C038", "A001")


def test_copies_and_pickles_are_modules_of_their_own():
    net, module = traced()
    x = rl.rand(2, 4)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), copy.copy(module)):
        same(other(x)[0], module(x)[0])
        assert other.code == module.code and other.graph is not module.graph
    other = copy.deepcopy(module)
    other.graph.output_node().args = (1,)
    other.recompile()
    assert other(x) == 1
    same(module(x)[0], net(x)[0])


def test_an_interpreter_runs_nodes_and_names_the_one_that_fails():
    net, module = traced()
    seen = []

    class Noting(fx.Interpreter):
        def run_node(self, n):
            seen.append(n.name)
            return super().run_node(n)

    x = rl.rand(3, 4)
    same(Noting(module).run(x)[0], net(x)[0])
    assert seen == [node.name for node in module.graph.nodes]
    with pytest.raises(RushlightError) as caught:
        fx.Interpreter(fx.symbolic_trace(lambda x, y: x @ y)).run(rl.ones(2, 3), rl.ones(2, 3))
    assert "while executing %matmul" in caught.value.__notes__[-1]


def test_a_transformer_makes_another_module():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(rl.tanh if target is rl.relu else target, args, kwargs)

    module = Swap(fx.symbolic_trace(lambda x: rl.relu(x) + 1)).transform()
    same(module(rl.ones(2)), rl.tanh(rl.ones(2)) + 1)


def test_patterns_are_replaced():
    def function(x, w1, w2):
        m1 = rl.cat([rl.neg(w1), w2]).sum()
        m2 = rl.cat([rl.neg(w1), w2]).sum()
        return x + m1 + rl.max(m2)

    module = fx.symbolic_trace(function)
    matches = fx.replace_pattern(module, lambda a, b: rl.cat([rl.neg(a), b]).sum(), lambda a, b: rl.stack([a, b]).max())
    module.graph.lint()
    assert len(matches) == 2 and "neg" not in module.code
    x, w1, w2 = rl.rand(2), rl.rand(3), rl.rand(3)
    largest = rl.stack([w1, w2]).max()
    same(module(x, w1, w2), x + largest + largest)


def test_a_pattern_whose_inside_others_read_is_kept():
    module = fx.symbolic_trace(lambda x: rl.relu(rl.neg(x)) + rl.neg(x))
    assert len(fx.replace_pattern(module, lambda x: rl.relu(rl.neg(x)), lambda x: rl.clamp(x, max=0))) == 1

    def shared(x):
        y = rl.neg(x)
        return rl.relu(y) + y

    assert not fx.replace_pattern(fx.symbolic_trace(shared), lambda x: rl.relu(rl.neg(x)), lambda x: x)


@pytest.mark.parametrize(
    "function",
    [lambda x: x if x.sum() > 0 else -x, lambda x: list(x), lambda x: len(x), lambda x: range(x)],
    ids=["truth", "loop", "length", "integer"],
)
def test_what_a_proxy_cannot_say_is_refused(function):
    with pytest.raises(RushlightError) as caught:
        fx.symbolic_trace(function)
    assert caught.value.code == "C002"


def test_tracing_leaves_modules_as_they_were():
    call, read = nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(RushlightError):
        fx.symbolic_trace(lambda x: bool(x))
    traced()
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is read


def test_shapes_are_noted():
    _, module = traced()
    ShapeProp(module).propagate(rl.ones(5, 4))
    layer = module.graph.find_nodes(op="call_module", target="layers.0")[0]
    assert tuple(layer.meta["tensor_meta"].shape) == (5, 3)


# ------------------------------------------------------------ compiled graphs


def step(x, w):
    h = (x @ w).relu()
    grown = nn.functional.gelu(h).expand(2, *h.shape)
    return h / h.sum(-1, keepdim=True), h.reshape(-1)[1:], grown, h.argmax(-1)


@pytest.mark.row("2.6")
def test_a_compiled_graph_is_a_module_and_its_way_back_loses_nothing():
    texts = []

    def backend(module, inputs):
        again = fx.lowered.graph_module(graph_of(module))
        texts.append((format_graph(graph_of(module)), format_graph(graph_of(again)), module.code, again.code))
        return again

    compiled = rl.compile(step, backend=backend)
    for rows in (5, 1, 9):
        x, w = rl.rand(rows, 4), rl.rand(4, 3)
        for result, expected in zip(compiled(x, w), step(x, w), strict=True):
            same(result, expected)
    ((text, again, code, code_again),) = texts
    assert text == again and code == code_again
    assert "sym_size" in code


def test_an_edited_graph_is_what_runs():
    def doubled(module, inputs):
        for node in list(module.graph.nodes):
            if node.target is fx.ops.relu:
                with module.graph.inserting_after(node):
                    node.target = fx.ops.neg
        module.graph.lint()
        module.recompile()
        return module

    assert rl.compile(lambda x: rl.relu(x) + 1, backend=doubled)(rl.ones(3)).tolist() == [0.0] * 3


NAMES = [name for name, op in sorted(OPERATORS.items()) if op.samples_rule is not None and not op.facts & Fact.CONTROL]


def _same_leaf(result, expected):
    if not isinstance(expected, rl.Tensor):
        assert result == expected
        return
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    assert result.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.generated
@pytest.mark.parametrize("name", [name for name in NAMES[3::7] if name not in ("empty", "cholesky")])
def test_a_traced_operator_has_the_bits_of_the_eager_one(name):
    op = OPERATORS[name]
    sample = next(iter(op.samples_rule(np.random.default_rng(0))))
    leaves, structure = flatten_tree((tuple(sample.args), dict(sample.kwargs)))
    leaves = [leaf.item() if isinstance(leaf, np.generic) else leaf for leaf in leaves]
    leaves = [rl.from_numpy(leaf.copy()) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    args, kwargs = unflatten_tree(structure, leaves)
    module = make_fx(lambda *args, **kwargs: op(*args, **kwargs))(*args, **kwargs)
    for result, expected in zip(flatten_tree(module(*leaves))[0], flatten_tree(op(*args, **kwargs))[0], strict=True):
        _same_leaf(result, expected)


def test_writes_become_values_and_copies_at_the_end():
    def function(x, y):
        z = x.clone()
        z[0] = y[0]
        x.add_(1)
        return {"a": z.mul_(2), "b": [x.view(-1), 3]}

    module = make_fx(function)(rl.ones(2, 3), rl.rand(2, 3))
    assert [node.target for node in module.graph.nodes if node.is_impure() and node.op == "call_function"] == [
        fx.ops.copy_
    ]
    y = rl.rand(2, 3)
    one, other = rl.ones(2, 3), rl.ones(2, 3)
    result, expected = module(one, y), function(other, y)
    same(result["a"], expected["a"])
    same(result["b"][0], expected["b"][0])
    same(one, other)


def test_gradients_random_numbers_and_modules_are_traced():
    layer = nn.Linear(3, 2)

    def loss(x):
        return nn.functional.dropout(layer(x), 0.5).square().sum()

    module = make_fx(rl.func.grad(loss), tracing_mode="symbolic")(rl.rand(2, 3))
    assert any(parameter is layer.weight for parameter in module.parameters())
    x = rl.rand(7, 3)
    rl.manual_seed(3)
    result = module(x)
    rl.manual_seed(3)
    same(result, rl.func.grad(loss)(x))


def test_decompositions_take_the_place_of_operators():
    module = make_fx(lambda x: rl.softmax(x, 0).relu(), decomposition_table={rl.relu: lambda x: x.clamp(min=0)})(
        rl.ones(2, 3)
    )
    assert "clamp" in module.code and "relu" not in module.code


def test_operators_that_are_called_bare_ask_proxies_too():
    module = fx.symbolic_trace(lambda x: OPERATORS["gelu"](x))
    same(module(rl.ones(2)), nn.functional.gelu(rl.ones(2)))


def test_targets_of_operators_are_pytorchs_under_the_alias():
    from rushlight.torch.modules import ops

    assert ops.aten.relu is fx.ops.relu and ops.aten.relu.default is fx.ops.relu


def test_operators_of_python_print_as_they_are_written():
    module = fx.symbolic_trace(lambda x: -x @ (x % 2).mT // 1 | ~(x > 0))
    assert operator.neg in [node.target for node in module.graph.nodes]
    for line in ("neg = -x", "floordiv = matmul // 1", "invert = ~gt"):
        assert line in module.code


@pytest.mark.row("2.11")
@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_graphs_from_before_autograd_are_differentiated_where_they_run(mode):
    def function(x, w):
        h = F.linear(x, w)
        with rl.no_grad():
            scale = h.exp()
        return F.layer_norm(F.dropout(h, 0.5, training=False) * scale, (4,))

    x, w = rl.rand(3, 4).requires_grad_(), rl.rand(4, 4).requires_grad_()
    expected = rl.autograd.grad(function(x, w).square().sum(), (x, w))
    before = make_fx(function, tracing_mode=mode, pre_dispatch=True)(x, w)
    names = [node.target.__name__ for node in before.graph.nodes if node.op == "call_function"]
    assert [name for name in names if name != "sym_size"] == ["linear", "exp", "detach", "mul", "layer_norm"]
    for one, other in zip(rl.autograd.grad(before(x, w).square().sum(), (x, w)), expected, strict=True):
        assert rl.equal(one, other)
    seed = 2 * function(x, w).detach()
    joint = make_fx(lambda x, w, seed: rl.func.vjp(before, x, w)[1](seed))(x.detach(), w.detach(), seed)
    for one, other in zip(joint(x.detach(), w.detach(), seed), expected, strict=True):
        assert rl.allclose(one, other, atol=1e-5)
    below = make_fx(function)(x, w)
    assert "detach" not in [node.target.__name__ for node in below.graph.nodes if node.op == "call_function"]


def test_a_graph_from_before_autograd_computes_no_gradients():
    with pytest.raises(RushlightError) as caught:
        make_fx(lambda x: rl.autograd.grad((x * x).sum(), x), pre_dispatch=True)(rl.ones(2, requires_grad=True))
    assert caught.value.code == "G005"


def test_what_modes_are_given_are_pytorchs_operators():
    aten = rl.ops.aten
    table = {
        aten.add.Tensor: "add",
        aten.add.out: "add out",
        aten.mul_.Tensor: "in place",
        aten.copy_.default: "copy",
        aten.sum.default: "sum",
    }
    found = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert func.overloadpacket in table if func in {aten.mul_.Tensor} else func.namespace == "aten"
            found.append(next((name for one, name in table.items() if func is one), None))
            assert table.get(func) == found[-1]
            return func(*args, **(kwargs or {}))

    x = rl.ones(2)
    with Mode():
        (x + x).sum()
        x.mul_(3)
        x.copy_(rl.zeros(2))
        rl.add(x, 1, out=x)
    assert [name for name in found if name] == ["add", "sum", "in place", "copy", "add out"]
    assert aten.mul_.Tensor(x + 1, 4).tolist() == [8.0, 8.0]
    assert aten.add.out(x, x, out=x) is x and x.tolist() == [2.0, 2.0]
    assert aten.add.Tensor != aten.sub.Tensor
    assert aten.add.overloads() == ["default"]


@pytest.mark.parametrize("listed", [False, True])
def test_operands_of_einsum_are_arguments_of_their_own(*, listed: bool):
    def function(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
        return rl.einsum("ij,jk->ik", [a, b]) if listed else rl.einsum("ij,jk->ik", a, b)

    graph = rl.fx.symbolic_trace(function).graph
    (node,) = [node for node in graph.nodes if node.op == "call_function"]
    assert node.target is rl.einsum
    assert [str(argument) for argument in node.args] == ["ij,jk->ik", "a", "b"]
