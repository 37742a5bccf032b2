"""The tape in public: hooks on what it saves, places in it, gradients of several tensors, anomaly mode, times."""

import gc
import json
import weakref

import pytest

import rushlight as rl
from rushlight.autograd import Variable, detect_anomaly, grad, graph, profiler, set_detect_anomaly


def leaf(*values):
    return rl.tensor(list(values), requires_grad=True)


def test_saved_tensors_go_through_hooks_eager_and_compiled():
    packed = []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor.double() * 2

    def unpack(tensor):
        return (tensor / 2).float()

    def function(x):
        return (x.sin() * x).exp().sum()

    x = leaf(0.5, 1.5)
    (expected,) = grad(function(x), x)
    for call in (function, rl.compile(function)):
        packed.clear()
        with graph.saved_tensors_hooks(pack, unpack):
            y = call(x)
        assert packed and all(shape == (2,) for shape in packed)
        assert rl.equal(grad(y, x)[0], expected)


def test_hooks_see_what_a_compiled_function_has_computed_and_drawn():
    def function(x):
        return rl.nn.functional.dropout(x.sin(), 0.5).exp().sum()

    x = leaf(*[0.1 * at for at in range(40)])
    compiled = rl.compile(function)
    found = []
    for scope in (graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t), rl.enable_grad()):
        rl.manual_seed(0)
        with scope:
            y = compiled(x)
        found.append(grad(y, x)[0])
    assert rl.equal(*found)


def test_gradients_of_gradients_go_through_hooks():
    x = leaf(0.5, 1.5)
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = (x.sin() * x).exp()
        (first,) = grad(y.sum(), x, create_graph=True)
    z = (x.sin() * x).exp()
    (other,) = grad(z.sum(), x, create_graph=True)
    assert rl.equal(grad(first.sum(), x)[0], grad(other.sum(), x)[0])


def test_saving_on_the_cpu_changes_nothing():
    x = leaf(1.0, 2.0)
    with graph.save_on_cpu(pin_memory=True):
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [2, 4]


def test_hooks_can_be_disabled():
    hooks = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(rl.AutogradError, match="not here"):
        hooks.__enter__()
    with hooks, pytest.raises(rl.AutogradError, match="nor here"), graph.disable_saved_tensors_hooks("nor here"):
        pass


def test_saved_tensors_may_change_where_that_is_allowed():
    for function in (lambda y: y.mul_(3), lambda y: y[0].zero_(), lambda y: rl.add(y.detach(), 1, out=y.detach())):
        x = leaf(1.0, 2.0)
        with graph.allow_mutation_on_saved_tensors():
            y = x.exp()
            z = y.sin()
            kept = z.detach()
            with rl.no_grad():
                function(y)
            z.sum().backward()
        assert rl.allclose(x.grad, x.exp().cos() * x.exp()) and kept is not z
    x = leaf(1.0, 2.0)
    with graph.allow_mutation_on_saved_tensors() as saved:
        y = x.exp().sin()
        assert saved is not None
    y.sum().backward()


def test_an_edge_stands_for_its_tensor():
    x = leaf(1.0, 2.0)
    y = x * 3
    edge = graph.get_gradient_edge(y)
    assert isinstance(edge.node, graph.Node) and edge.output_nr == 0 and edge.node is y.grad_fn
    z = (y * y).sum()
    assert grad(z, edge, retain_graph=True)[0].tolist() == grad(z, y, retain_graph=True)[0].tolist()
    assert grad(edge, x, rl.ones(2))[0].tolist() == [3, 3]
    assert graph.get_gradient_edge(x).node.name() == "AccumulateGrad"
    with pytest.raises(rl.AutogradError):
        graph.get_gradient_edge(rl.ones(1))
    with pytest.raises(rl.AutogradError):
        grad(edge, x)


def test_a_version_can_be_counted_up():
    x = leaf(1.0)
    y = x.exp()
    z = y.exp()
    graph.increment_version([y])
    with pytest.raises(rl.AutogradError, match="changed in place"):
        z.backward()


@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_hook_on_several_gradients(mode):
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    calls = []
    handle = graph.register_multi_grad_hook([a, b, c], calls.append, mode=mode)
    (a * b).sum().backward()
    if mode == "all":
        assert [item and item.tolist() for item in calls[0]] == [[2.0], [1.0], None]
    else:
        assert calls[0].tolist() in ([2.0], [1.0])
    (a * b * c).sum().backward()
    assert len(calls) == 2 and (mode == "any" or None not in calls[1])
    handle.remove()
    (a * b).sum().backward()
    assert len(calls) == 2
    with pytest.raises(rl.ArgumentError):
        graph.register_multi_grad_hook([a], calls.append, mode="some")


@pytest.mark.parametrize("scope", [detect_anomaly, lambda: set_detect_anomaly(True)])
def test_anomaly_mode_names_the_line_of_the_forward_pass(scope):
    def root(x):
        return x.sqrt() * 0  # here it was

    for call in (root, rl.compile(root)):
        with scope():
            assert rl.is_anomaly_enabled() and rl.is_anomaly_check_nan_enabled()
            with pytest.raises(rl.AutogradError, match="gives NaN") as caught:
                call(leaf(0.0, 1.0)).sum().backward()
        assert caught.value.code == "G021" and ("here it was" in str(caught.value) or call is not root)
    assert not rl.is_anomaly_enabled()
    with detect_anomaly(check_nan=False):
        root(leaf(0.0)).backward()
    root(leaf(0.0)).backward()


def test_times_of_named_parts(tmp_path):
    @profiler.record_function("inner")
    def work():
        return sum(range(1000))

    with profiler.profile() as measured:
        for _ in range(3):
            with profiler.record_function("outer"):
                work()
    work()
    averages = {event.key: event for event in measured.key_averages()}
    assert averages["outer"].count == averages["inner"].count == 3
    assert averages["outer"].cpu_time_total > averages["inner"].cpu_time_total > 0
    assert "outer" in measured.key_averages().table(sort_by="cpu_time_total", row_limit=1)
    assert measured.self_cpu_time_total > 0 and len(measured.function_events) == 6
    measured.export_chrome_trace(str(tmp_path / "trace.json"))
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == 6
    with pytest.raises(rl.NotSupportedError):
        profiler.profile(use_cuda=True)
    for refused in (lambda: profiler.profile(with_flops=True), lambda: measured.table(sort_by="cuda_time")):
        with pytest.raises(rl.NotSupportedError):
            refused()


def test_modes_and_old_names():
    x = Variable(rl.ones(2), requires_grad=True)
    assert isinstance(x, Variable) and x.requires_grad and not isinstance(1, Variable)
    before = rl.autograd.is_multithreading_enabled()
    with rl.autograd.set_multithreading_enabled(False):
        assert not rl.autograd.is_multithreading_enabled()
    assert rl.autograd.is_multithreading_enabled() is before
    y = (x * x).sum()
    reference = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert reference() is None
