"""Backends as their authors write them for PyTorch: compilers of forward and backward graphs, boxed calls, names."""

import weakref

import pytest

import rushlight as rl
from rushlight.capture.backends import NAMED
from rushlight.compiler.aot_autograd import (
    aot_autograd,
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    make_boxed_func,
    min_cut_rematerialization_partition,
    nop,
)
from rushlight.support.errors import RushlightError

pytestmark = pytest.mark.usefixtures("quick_code")


class Compilers:
    """A compiler of forward graphs with boxed functions, and one of backward graphs that gives modules."""

    def __init__(self):
        self.forwards, self.backwards = [], []

    def forward(self, module, inputs):
        assert len(inputs) == len([node for node in module.graph.nodes if node.op == "placeholder"])
        self.forwards.append(module)
        return make_boxed_func(module.forward)

    def backward(self, module, inputs):
        self.backwards.append(module)
        return module

    def simplified(self, module, inputs):
        return aot_module_simplified(module, inputs, fw_compiler=self.forward, bw_compiler=self.backward)

    def parted(self, partition):
        return aot_autograd(fw_compiler=self.forward, bw_compiler=self.backward, partition_fn=partition)


def network():
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Tanh(), rl.nn.Linear(8, 2))


def gradients(run, model):
    model.zero_grad()
    run(rl.ones(3, 4)).square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


WAYS = {
    "simplified": lambda compilers, model: rl.compile(model, backend=compilers.simplified),
    "parts": lambda compilers, model: rl.compile(model, backend=compilers.simplified, fullgraph=False),
    "default": lambda compilers, model: rl.compile(
        model, backend=compilers.parted(rl.compiler.partition.default_partition)
    ),
    "minimum cut": lambda compilers, model: rl.compile(
        model, backend=compilers.parted(min_cut_rematerialization_partition)
    ),
    "module": lambda compilers, model: aot_module(model, compilers.forward, compilers.backward),
    "not given": lambda compilers, model: aot_module_simplified(
        model, (rl.ones(3, 4),), compilers.forward, compilers.backward
    ),
}


@pytest.mark.row("2.6")
@pytest.mark.parametrize("way", WAYS)
def test_compilers_get_forward_and_backward_graphs(way):
    compilers, model = Compilers(), network()
    expected = gradients(model, model)
    run = WAYS[way](compilers, model)
    for _ in range(2):
        assert all(map(rl.equal, gradients(run, model), expected))
    assert len(compilers.forwards) == len(compilers.backwards) == 1
    with rl.no_grad():
        assert rl.equal(run(rl.ones(3, 4)), model(rl.ones(3, 4)))
    assert len(compilers.backwards) == 1


def test_second_derivatives_are_graphs_for_the_same_compiler():
    compilers = Compilers()
    step = rl.compile(lambda x: (x.sin() * x).sum(), backend=compilers.simplified)
    x = rl.rand(3, dtype=rl.float64).requires_grad_()
    (first,) = rl.autograd.grad(step(x), x, create_graph=True)
    first.sum().backward()
    assert rl.allclose(x.grad, 2 * x.cos() - x * x.sin())
    assert len(compilers.backwards) > 1


def test_a_compiler_that_does_nothing_gives_the_bits_of_eager_code():
    model = network()
    expected = gradients(model, model)
    assert all(map(rl.equal, gradients(rl.compile(model, backend=aot_autograd(fw_compiler=nop)), model), expected))


def test_boxed_functions_let_their_arguments_go():
    seen = []

    def compiler(module, inputs):
        def run(args):
            references = [weakref.ref(arg) for arg in args]
            args.clear()
            del inputs[:]
            seen.extend([reference() is None for reference in references])
            return (rl.ones(3),)

        run._boxed_call = True
        return run

    step = rl.compile(lambda x: x * 2, backend=make_boxed_compiler(compiler))
    assert step(rl.ones(3)).tolist() == [1.0] * 3
    assert seen == [True]


def test_operators_are_decomposed_before_a_compiler_sees_them():
    seen = []

    def compiler(module, inputs):
        seen.extend([node.target.__name__ for node in module.graph.nodes if node.op == "call_function"])
        return module

    table = {rl.fx.ops.tanh: lambda x: 2 * rl.sigmoid(2 * x) - 1}
    x = rl.rand(5)
    step = rl.compile(lambda x: rl.tanh(x) * 2, backend=aot_autograd(fw_compiler=compiler, decompositions=table))
    assert rl.allclose(step(x), x.tanh() * 2, atol=1e-6)
    assert "sigmoid" in seen
    assert "tanh" not in seen
    assert rl.allclose(step(rl.ones(9)), rl.ones(9).tanh() * 2, atol=1e-6)


def test_writes_and_views_are_those_of_the_function():
    compilers = Compilers()

    def function(x, y):
        y.mul_(x)
        return y[0], x.T

    outcomes = []
    for run in (function, aot_function(function, compilers.forward, compilers.backward)):
        x, y = rl.arange(4.0).reshape(2, 2), rl.ones(2, 2)
        row, turned = run(x, y)
        turned.add_(1)
        outcomes.append((row.tolist(), x.tolist(), y.tolist()))
    assert outcomes[0] == outcomes[1]
    assert compilers.forwards


def test_backends_have_names():
    compilers = Compilers()
    try:
        rl.compiler.register_backend(compilers.simplified, name="mine", tags=("experimental",))
        assert rl.compile(lambda x: x + 1, backend="mine")(rl.ones(2)).tolist() == [2.0, 2.0]
        assert len(compilers.forwards) == 1
        assert "mine" not in rl.compiler.list_backends()
        assert "mine" in rl.compiler.list_backends(exclude_tags=())
        assert rl.compiler.lookup_backend("mine") == compilers.simplified
        with pytest.raises(RushlightError) as caught:
            rl.compiler.register_backend(compilers.simplified, name="mine")
        assert caught.value.code == "C001"
    finally:
        NAMED.pop("mine")
    with pytest.raises(RushlightError) as caught:
        rl.compiler.lookup_backend("mine")
    assert caught.value.code == "C001"


def test_a_partition_of_ones_own_is_refused():
    with pytest.raises(RushlightError) as caught:
        aot_autograd(fw_compiler=nop, partition_fn=lambda joint, inputs, num_fwd_outputs: None)
    assert caught.value.code == "A006"
