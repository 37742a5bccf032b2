"""Compiled autograd: the tape of a backward pass becomes a program with hooks and accumulation, which is compiled."""

import gc
import weakref

import numpy as np
import pytest

import rushlight as rl
from rushlight.compiler import compiled_autograd
from rushlight.compiler.callback import callback_handler
from rushlight.support.errors import RushlightError

pytestmark = [pytest.mark.usefixtures("quick_code", "fresh_tapes")]


@pytest.fixture
def fresh_tapes():
    rl.compiler.reset()
    compiled_autograd.reset()
    yield
    compiled_autograd.reset()
    callback_handler.clear()


class Square(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * ctx.factor, None


class Logged(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, log):
        ctx.log = log
        return x * 3

    @staticmethod
    def backward(ctx, g):
        ctx.log.append(("function", float(g.sum())))
        return g * 3, None


def drawn(*shape, seed=0, dtype="float32"):
    return rl.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def same_bits(one, other):
    return len(one) == len(other) and all(
        (a is None and b is None) or (a.shape == b.shape and bool((a.view(rl.int32) == b.view(rl.int32)).all()))
        for a, b in zip(one, other, strict=True)
    )


def both(run):
    """What a function of nothing gives, and what it gives with compiled autograd."""
    want = run()
    with compiled_autograd.enable():
        return want, run()


def network():
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Tanh(), rl.nn.Linear(8, 3))


def gradients_of(parameters):
    return [parameter.grad.detach().clone() for parameter in parameters]


def test_gradients_have_the_bits_of_eager_ones_and_one_graph():
    model, x = network(), drawn(5, 4)

    def run():
        model.zero_grad()
        model(x).square().mean().backward()
        return gradients_of(model.parameters())

    want, got = both(run)
    assert same_bits(want, got)
    assert (rl.compiler.graph_count(), compiled_autograd.program_count()) == (1, 1)


@pytest.mark.row("2.2")
def test_a_changed_size_becomes_a_symbol_after_two_compiles():
    model = network()

    def run(rows):
        model.zero_grad()
        model(drawn(rows, 4)).square().mean().backward()
        return gradients_of(model.parameters())

    for rows in (5, 5, 7, 2, 9, 64):
        want, got = both(lambda rows=rows: run(rows))
        assert same_bits(want, got), rows
    assert compiled_autograd.program_count() == 2
    assert rl.compiler.graph_count() == 2


@pytest.mark.row("2.2")
def test_a_forward_with_three_breaks_has_one_backward_graph():
    layers = [rl.nn.Linear(4, 4) for _ in range(4)]
    parameters = [parameter for layer in layers for parameter in layer.parameters()]

    def forward(x):
        x = layers[0](x).relu()
        print(end="")
        x = layers[1](x).tanh()
        print(end="")
        x = layers[2](x).relu()
        print(end="")
        return layers[3](x).sum()

    compiled = rl.compile(forward, fullgraph=False)

    def run(rows):
        for parameter in parameters:
            parameter.grad = None
        loss = compiled(drawn(rows, 4))
        before = rl.compiler.graph_count()
        loss.backward()
        return gradients_of(parameters), rl.compiler.graph_count() - before

    eager, _ = run(5)
    with compiled_autograd.enable():
        got, graphs = run(5)
        assert same_bits(eager, got)
        assert graphs == 1
        assert run(5)[1] == 0
        assert run(6)[1] <= 1
        assert run(7)[1] == 0
        assert same_bits(run(9)[0], (forward_gradients := plain(forward, parameters, 9)))
    assert len(forward_gradients) == 8


def plain(forward, parameters, rows):
    for parameter in parameters:
        parameter.grad = None
    with compiled_autograd.disable():
        forward(drawn(rows, 4)).backward()
    return gradients_of(parameters)


def logging_step(log, noisy):
    """A step with every kind of hook, of which most write to a log."""
    model = network()
    for name, parameter in model.named_parameters():
        parameter.register_hook(lambda g, name=name: log.append((name, float(g.sum()))))
        parameter.register_hook(lambda g: g.clamp(-0.05, 0.05))
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: log.append(("after", name, float(p.grad.sum())))
        )

    def step(number):
        hidden = model[0](drawn(5, 4, seed=number))
        hidden.register_hook(lambda g: g * 0.5)
        hidden.register_hook(lambda g: log.append(("hidden", float(g.sum()))))
        hidden.retain_grad()
        y = model[2](model[1](hidden))
        y.grad_fn.register_prehook(lambda given: log.append(("before", len(given), float(given[0].sum()))))
        y.grad_fn.register_hook(lambda results, given: log.append(("node", len(results), len(given))))
        y = Square.apply(y, 2.0)
        if noisy:
            y = Logged.apply(y, log)
        model.zero_grad()
        y.mean().backward()
        return [*gradients_of(model.parameters()), hidden.grad]

    return step


@pytest.mark.row("2.2")
@pytest.mark.parametrize("noisy", [False, True])
def test_the_log_of_hooks_is_that_of_eager_code(noisy):
    logs = [], []
    eager, compiled = (logging_step(log, noisy) for log in logs)
    for number in range(6):
        want = eager(number)
        with compiled_autograd.enable():
            assert same_bits(want, compiled(number))
        if number == 1:
            graphs = rl.compiler.graph_count()
    assert logs[0] == logs[1]
    assert len(logs[0]) == 6 * (11 + noisy)
    assert compiled_autograd.program_count() == 1
    assert rl.compiler.graph_count() == graphs  # no pass after the second makes one


def test_hooks_that_compute_are_in_the_one_graph():
    model = network()
    for parameter in model.parameters():
        parameter.register_hook(lambda g: g.clamp(-0.05, 0.05))

    def run():
        hidden = model[0](drawn(5, 4))
        scale = rl.tensor(0.5)
        hidden.register_hook(lambda g: g * scale)
        model.zero_grad()
        model[2](model[1](hidden)).sum().backward()
        return gradients_of(model.parameters())

    want, got = both(run)
    assert same_bits(want, got)
    assert rl.compiler.graph_count() == 1


def test_grad_gives_gradients_of_inputs_and_of_what_is_on_the_way():
    x, w = drawn(5, 4).requires_grad_(), drawn(4, 4, seed=1).requires_grad_()

    def run():
        h = x @ w
        loss = (h.tanh() * h).sum()
        return rl.autograd.grad(loss, [x, h, w], retain_graph=True)

    want, got = both(run)
    assert same_bits(want, got)
    assert x.grad is None
    unused = drawn(2).requires_grad_()
    with compiled_autograd.enable():
        assert rl.autograd.grad((x * 2).sum(), [x, unused], allow_unused=True)[1] is None
        with pytest.raises(RuntimeError, match="was not used"):
            rl.autograd.grad((x * 2).sum(), unused)


def test_backward_with_inputs_adds_to_these_alone():
    x, w = drawn(5, 4).requires_grad_(), drawn(4, 4, seed=1).requires_grad_()

    def run():
        x.grad = w.grad = None
        h = x @ w
        (h.tanh() * h).sum().backward(inputs=[w, h])
        return [x.grad, w.grad, h.grad]

    want, got = both(run)
    assert want[0] is None
    assert same_bits(want, got)


def test_writes_to_views_are_part_of_the_program():
    x = drawn(4, 6).requires_grad_()

    def run(columns):
        x.grad = None
        y = x * 2
        y[:, :columns] = y[:, -columns:].tanh()
        y[1].mul_(3)
        (y * y).sum().backward()
        return [x.grad.clone()]

    for columns in (2, 3, 1):
        want, got = both(lambda columns=columns: run(columns))
        assert same_bits(want, got)


def test_saved_tensor_hooks_run_where_eager_code_runs_them():
    x, logs = drawn(5, 4).requires_grad_(), []

    def run():
        log = []
        logs.append(log)
        x.grad = None

        def unpack(packed):
            log.append(packed[0])
            return packed[1]

        x_hook = x.register_hook(lambda g: log.append("x"))
        with rl.autograd.graph.saved_tensors_hooks(lambda tensor: (len(log), tensor), unpack):
            y = x.sin().exp()
        y.sum().backward()
        x_hook.remove()
        return [x.grad.clone()]

    want, got = both(run)
    assert same_bits(want, got)
    assert logs[0] == logs[1] != []


def test_a_freed_tape_and_a_changed_tensor_are_errors():
    x = drawn(3).requires_grad_()
    with compiled_autograd.enable():
        loss = x.sin().sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="is freed"):
            loss.backward()
        y = x.exp()
        loss = y.sum()
        with rl.no_grad():
            y.mul_(2)
        with pytest.raises(RuntimeError, match="changed in place"):
            loss.backward()
        loss = x.sin().sum()
        loss.backward(retain_graph=True)
        loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.cos(x.detach().numpy()), rtol=1e-6)


@pytest.mark.row("2.3")
def test_contexts_nest_and_are_restored_by_errors():
    states = []

    def note():
        states.append(compiled_autograd.is_enabled())

    note()
    with compiled_autograd.enable():
        note()
        with pytest.raises(ZeroDivisionError), compiled_autograd.disable():
            note()
            with compiled_autograd.enable():
                note()
                raise ZeroDivisionError
        note()
    note()
    assert states == [False, True, False, True, True, False]


@pytest.mark.row("2.3")
def test_the_setting_compiles_passes_unless_they_are_within_disable():
    x = drawn(3).requires_grad_()
    with compiled_autograd.override(True):
        x.sin().sum().backward()
        assert compiled_autograd.program_count() == 1
        with compiled_autograd.disable():
            x.cos().sum().backward()
    x.exp().sum().backward()
    assert compiled_autograd.program_count() == 1


@pytest.mark.row("2.3")
def test_callbacks_are_told_of_the_start_and_the_end_of_a_compilation():
    x, told = drawn(3).requires_grad_(), []
    callback_handler.register_start_callback(lambda args: told.append(("start", *args)))
    callback_handler.register_end_callback(lambda args: told.append(("end", *args)))
    with compiled_autograd.enable():
        for _ in range(3):
            x.grad = None
            x.sin().sum().backward()
    assert [(when, trigger.name) for when, trigger, _ in told] == [
        ("start", "COMPILED_AUTOGRAD"),
        ("end", "COMPILED_AUTOGRAD"),
    ]
    assert told[0][2] == told[1][2]


class Watching(rl.autograd.graph.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.row("2.3")
def test_what_is_refused_names_the_four_remedies_once():
    x = drawn(3).requires_grad_()
    loss = x.sin().sum()
    with compiled_autograd.enable(), Watching(), pytest.raises(NotImplementedError) as raised:
        loss.backward()
    text = str(raised.value)
    assert [text.count(f"{number}. ") for number in (1, 2, 3, 4)] == [1, 1, 1, 1]
    for remedy in ("enable()", "disable()", "override(False)", "set_enabled(False)"):
        assert text.count(remedy) == 1
    with compiled_autograd.enable(), compiled_autograd.disable(), Watching():
        loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.detach().numpy()), rtol=1e-6)


@pytest.mark.row("2.3")
def test_a_compiler_of_one_graph_refuses_what_it_cannot_hold():
    x = drawn(3).requires_grad_()
    x.register_hook(lambda g: print(end=""))
    with compiled_autograd.enable(lambda program: rl.compile(program, fullgraph=True)):
        (x.detach().requires_grad_() * 2).sum().backward()
        assert rl.compiler.graph_count() == 1
        with pytest.raises(NotImplementedError, match="one graph cannot hold") as raised:
            x.sin().sum().backward()
    assert str(raised.value).count("1. ") == 1
    assert x.grad is None


@pytest.mark.row("2.4")
def test_create_graph_gives_gradients_that_can_be_differentiated():
    x, w = drawn(5, 4).requires_grad_(), drawn(4, 4, seed=1).requires_grad_()
    compiled = rl.compile(lambda x, w: ((x @ w).tanh() * x).sum())

    def run(loss_of):
        first = rl.autograd.grad(loss_of(x, w), [x, w], create_graph=True)
        assert all(gradient.requires_grad for gradient in first)
        second = rl.autograd.grad((first[0] * first[1].sum()).sum(), [x, w], create_graph=True)
        third = rl.autograd.grad((second[0] * second[1].sum()).sum(), [x, w])
        return [gradient.detach() for gradient in (*first, *second, *third)]

    want = run(compiled.function)
    with compiled_autograd.enable():
        assert same_bits(want, run(compiled.function))
        assert same_bits(want, run(compiled))


def test_a_pass_over_tensors_without_data_is_not_compiled():
    x = rl.empty(3, 2, device="meta").requires_grad_()
    before = compiled_autograd.program_count()
    with compiled_autograd.enable():
        (x * x).sum().backward()
    assert tuple(x.grad.shape) == (3, 2)
    assert compiled_autograd.program_count() == before


@pytest.mark.row("2.4")
def test_what_has_no_second_derivative_is_not_detached():
    class Square(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @rl.autograd.once_differentiable
        def backward(ctx, gradient):
            return 2 * gradient * ctx.saved_tensors[0]

    for function in (Square.apply, rl.compile(Square.apply)):
        x = drawn(3).requires_grad_()
        with compiled_autograd.enable(), pytest.raises(RushlightError) as caught:
            (first,) = rl.autograd.grad(function(x).sum(), x, create_graph=True)
            (first.sum() + (x * x).sum()).backward()
        assert caught.value.code == "G008"


def test_nothing_of_a_pass_is_alive_after_it():
    gc.disable()
    try:
        for fails in (False, True):
            model = network()
            x = drawn(5, 4)
            hidden = model[0](x)
            y = model[2](model[1](hidden))
            if fails:
                y.register_hook(lambda g: 1 / 0)
            nodes = [weakref.ref(y.grad_fn), weakref.ref(hidden), weakref.ref(model[0].weight)]
            with compiled_autograd.enable():
                for _ in range(2):
                    if fails:
                        with pytest.raises(ZeroDivisionError):
                            y.sum().backward(retain_graph=True)
                    else:
                        y.sum().backward(retain_graph=True)
            del model, hidden, x, y
            assert [reference() for reference in nodes] == [None, None, None]
    finally:
        gc.enable()


LEAF_AND_GRADIENT = {
    "contiguous": lambda x, g: (x * drawn(3, 4, seed=5), g),
    "expanded": lambda x, g: (x.sum(), None),
    "transposed": lambda x, g: (x.t() * drawn(4, 3, seed=6), g.t()),
    "given": lambda x, g: (x + 0, g),
    "strided": lambda x, g: (x + 0, drawn(6, 8, seed=7)[::2, ::2]),
}


def accumulated(kind, before, create_graph, transposed):
    """What a pass leaves in a leaf's `grad`: elements, strides, and what it is and shows."""
    x = (drawn(4, 3).t() if transposed else drawn(3, 4)).requires_grad_()
    held = drawn(3, 4, seed=3) if before else None
    x.grad = held
    result, g = LEAF_AND_GRADIENT[kind](x, drawn(3, 4, seed=4))
    result.backward(g, create_graph=create_graph)
    same = x.grad is held, g is not None and x.grad.data_ptr() == g.data_ptr()
    changed = None if held is None else held.tolist()
    return x.grad.detach().tolist(), x.grad.stride(), same, x.grad.requires_grad, changed


@pytest.mark.row("2.5")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", LEAF_AND_GRADIENT)
def test_each_branch_of_accumulation_is_that_of_eager_code(kind, transposed):
    for before in (False, True):
        for create_graph in (False, True):
            want, got = both(lambda before=before, made=create_graph: accumulated(kind, before, made, transposed))
            assert want == got, (before, create_graph)


def test_an_error_in_a_step_names_the_forward_line():
    class Failing(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no gradient")

    x = drawn(3).requires_grad_()
    loss = Failing.apply(x).sum()
    with compiled_autograd.enable(), pytest.raises(ValueError, match="no gradient") as raised:
        loss.backward()
    assert "in backward of FailingBackward, recorded at test_tape.py" in raised.value.__notes__[-1]


@pytest.mark.row("2.2")
def test_gradients_of_broadcast_operands_whose_sizes_become_one():
    """Nothing but the backward pass is traced, and its sums depend on which sizes are 1."""

    def program(t, a):
        return ((t * a).sin() - t / (a + 2)).sum()

    pairs = [((3, 4), (3, 4)), ((3, 1), (3, 4)), ((1, 4), (3, 4)), ((5, 1), (5, 4)), ((3, 4), (3, 1)), ((1, 1), (1, 1))]
    for shape, other in [*pairs, *reversed(pairs)]:
        found = []
        for scope in (compiled_autograd.disable(), compiled_autograd.enable()):
            t, a = (rl.linspace(0.1, 1, rl.Size(one).numel()).view(one).requires_grad_() for one in (shape, other))
            with scope:
                program(t, a).backward()
            found.append([(one.grad.shape, one.grad.numpy().tobytes()) for one in (t, a)])
        assert found[0] == found[1]
