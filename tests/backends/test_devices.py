"""Tensors on devices that packages bring: where they are, what computes them, and what is refused."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import rushlight as rl
from rushlight.eager.execution import artifact
from rushlight.eager.execution.tables import forget_plans
from rushlight.support import settings

pytestmark = pytest.mark.usefixtures("devices")


@contextmanager
def refused(code: str) -> Iterator[None]:
    with pytest.raises(rl.RushlightError) as caught:
        yield
    assert caught.value.code == code


def test_a_tensor_is_on_the_device_that_was_asked_for():
    x = rl.ones(3, device="mica")
    assert x.device == rl.device("mica", 0)
    assert repr(x) == "tensor([1., 1., 1.], device='mica:0')"
    assert (x * 2 + 1).device == x.device
    assert rl.zeros_like(x).device == x.device
    assert rl.zeros_like(x, device="cpu").device == rl.device("cpu")
    with rl.device("mica"):
        assert rl.randn(2).device == x.device
    assert rl.tensor([1, 2], device="mica").tolist() == [1, 2]


def test_the_host_does_not_see_the_memory(mica: rl.backends.Backend):
    x = rl.ones(3, device="mica")
    for read in (x.numpy, lambda: np.asarray(x), x.__dlpack__, x.untyped_storage().memory.view):
        with refused("V004"):
            read()
    assert x.data_ptr() >= 1 << 60
    with pytest.raises(rl.DeviceError, match="a fault at address"):
        mica.arena.translate(x.data_ptr(), 1 << 20)
    assert x.cpu().numpy().tolist() == [1, 1, 1]
    assert x.numpy(force=True).tolist() == [1, 1, 1]


def test_a_program_of_the_device_refuses_addresses_of_the_host(mica: rl.backends.Backend):
    x = rl.ones(3)
    y = rl.empty(3, device="mica")
    y.backing = x.backing  # what no program can do: a tensor on the device with memory of the host's
    with pytest.raises(rl.DeviceError, match="which is the host's"):
        y + 1


def test_a_block_and_what_is_outside_of_it_share_no_executables(monkeypatch: pytest.MonkeyPatch):
    made: list[str] = []
    original = artifact.build.compile_for

    def noted(*args: object) -> object:
        made.append(settings.key())
        return original(*args)

    monkeypatch.setattr(artifact.build, "compile_for", noted)
    artifact.reset()
    forget_plans()
    x = rl.ones(3, device="mica")
    made.clear()
    for optimise in (1, 0, 1, 0):
        with settings.override(optimise=optimise) as within:
            (x * 2 + 1).mul_(x)
        made.append(within.key)
    first, second = made[0], made[-1]
    each = made.count(first) - 1
    assert first != second
    assert each > 3
    assert made == [*[first] * each, *[second] * each, first, second]


def test_operands_on_several_devices_are_refused():
    x, y, z = rl.ones(3), rl.ones(3, device="mica"), rl.ones(3, dtype=rl.int64, device="flint")
    for one, other in ((x, y), (y, x), (y, z), (z, y)):
        with refused("V002"):
            one + other
        with refused("V002"):
            one.add_(other)
        with refused("V002"):
            rl.where(one.clone(), one, other)
    with refused("V002"):
        rl.cat((x, y))
    assert (y + rl.tensor(2.0)).tolist() == [3, 3, 3]  # one without dims goes along


def test_there_is_no_other_device_of_a_kind():
    for name in ("mica:1", "flint:3"):
        with refused("V001"):
            rl.ones(3, device=name)


def test_views_and_writes_share_the_memory():
    base = rl.arange(12.0, device="mica")
    part = base.view(3, 4).t()[1:, ::2]
    part.mul_(10)
    part[0].fill_(-1)
    expected = rl.arange(12.0)
    same = expected.view(3, 4).t()[1:, ::2]
    same.mul_(10)
    same[0].fill_(-1)
    assert base.tolist() == expected.tolist()
    assert part.stride() == same.stride()
    assert part.storage_offset() == same.storage_offset()
    assert part.untyped_storage() == base.untyped_storage()
    assert part._version == base._version


def test_memory_goes_back_to_the_device(mica: rl.backends.Backend):
    gc.collect()
    mica.memory.empty_cache()
    before = mica.arena.used_bytes
    x = rl.ones(1 << 18, device="mica")
    assert mica.arena.used_bytes >= before + (1 << 20)
    del x
    mica.memory.empty_cache()
    assert mica.arena.used_bytes == before


@pytest.mark.parametrize("name", ["rand", "randn"])
def test_random_numbers_are_those_of_the_cpu(name: str):
    rl.manual_seed(3)
    expected = getattr(rl, name)(5, 7)
    rl.manual_seed(3)
    assert rl.equal(getattr(rl, name)(5, 7, device="mica").cpu(), expected)
    rl.manual_seed(3)
    x = rl.zeros(5, 7, device="mica").normal_()
    rl.manual_seed(3)
    assert rl.equal(x.cpu(), rl.zeros(5, 7).normal_())


def test_what_a_device_lacks_is_counted_and_warned_of_and_forbidden_by_strict():
    x = rl.tensor([3.0, 1.0, 2.0], device="mica")
    with pytest.warns(rl.DeviceWarning, match="argsort: mica has no kernel"):
        values = x.sort().values
    assert values.tolist() == [1, 2, 3]
    assert values.device == x.device
    x.sort()
    assert rl.backends.fallbacks() == {("mica", "argsort"): 2}
    with rl.strict(), refused("V005"):
        x.sort()


def test_compiled_functions_have_the_bits_of_the_cpu():
    def f(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
        return (a @ b).softmax(-1) * a + a.sum(0)

    rl.manual_seed(0)
    a, b = rl.randn(6, 6), rl.randn(6, 6)
    compiled = rl.compile(f)
    expected = f(a, b)
    on_mica = compiled(a.to("mica"), b.to("mica"))
    assert on_mica.device == rl.device("mica:0")
    assert rl.equal(on_mica.cpu(), expected)
    assert rl.equal(compiled(a, b), expected)


def test_what_a_frozen_program_computes_once_is_on_the_device():
    w, x = rl.randn(40, 40), rl.randn(6, 40)
    found: list[rl.Tensor] = []
    for device in ("cpu", "mica"):
        weight = w.to(device)
        compiled = rl.compile(lambda x, weight=weight: (weight.exp() * 2).sum(0) + x, freeze=True, fullgraph=True)
        with rl.no_grad():
            found += [compiled(x.to(device)) for _ in range(2)]
    assert [one.device.type for one in found] == ["cpu", "cpu", "mica", "mica"]
    assert all(rl.equal(one.cpu(), found[0]) for one in found)
    assert not rl.backends.fallbacks()


def test_gradients_have_the_bits_of_the_cpu_and_flow_between_devices():
    rl.manual_seed(0)
    x, w = rl.randn(4, 3, requires_grad=True), rl.randn(3, 5)
    rl.nn.functional.gelu(x @ w).sum().backward()
    for step in (lambda f: f, rl.compile):
        y = x.detach().clone().requires_grad_()
        f = step(lambda a, b: rl.nn.functional.gelu(a @ b).sum())
        f(y.to("mica"), w.to("mica")).cpu().backward()
        assert y.grad.device == rl.device("cpu")
        assert rl.equal(y.grad, x.grad)


@pytest.mark.filterwarnings("ignore::rushlight.DeviceWarning")
def test_gradients_of_numbers_of_the_cpu_are_there():
    """They go along with tensors elsewhere; their gradients come back, of any order."""
    for device in ("mica", "flint"):
        x, number = rl.tensor([1.0, 2.0], device=device, requires_grad=True), rl.tensor(3.0, requires_grad=True)
        (first,) = rl.autograd.grad((x.pow(number) * number).sum(), number, create_graph=True)
        first.backward()
        assert (first.device.type, number.grad.device.type, x.grad.device.type) == ("cpu", "cpu", device)
        y, other = x.detach().cpu().requires_grad_(), number.detach().requires_grad_()
        (wanted,) = rl.autograd.grad((y.pow(other) * other).sum(), other, create_graph=True)
        wanted.backward()
        rl.testing.assert_close((first, number.grad, x.grad.cpu()), (wanted, other.grad, y.grad))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_functions_give_gradients_of_numbers_of_the_cpu(fullgraph: bool):
    """Within a graph too they come back, and what they have come to is computed there."""

    def loss(x, number):
        return (x.pow(number) * number).sum() + x.sum() * (number + 1)

    def gradient(x, number):
        (first,) = rl.autograd.grad(loss(x, number), number, create_graph=True)
        first.backward()
        return first

    x, number = rl.tensor([1.0, 2.0], device="mica", requires_grad=True), rl.tensor(3.0, requires_grad=True)
    y, other = x.detach().cpu().requires_grad_(), number.detach().requires_grad_()
    loss(y, other).backward()
    for _ in range(2):
        rl.compile(loss, fullgraph=fullgraph)(x, number).backward()
        assert (number.grad.device.type, x.grad.device.type) == ("cpu", "mica")
        rl.testing.assert_close((number.grad, x.grad.cpu()), (other.grad, y.grad))
        x.grad = number.grad = None
    y.grad = other.grad = None
    wanted = gradient(y, other)
    first = rl.compile(gradient, fullgraph=fullgraph)(x, number)
    assert (first.device.type, number.grad.device.type, x.grad.device.type) == ("cpu", "cpu", "mica")
    rl.testing.assert_close((first, number.grad, x.grad.cpu()), (wanted, other.grad, y.grad))


def test_one_graph_goes_on_with_copies_on_several_devices():
    """Between two copies each device has a program of its own; tensors of one are overwritten."""

    def function(x, z):
        doubled = x * 2
        here = doubled.cpu() + z
        x.add_(here.sum().to("mica") * z[1])
        return doubled + 1, here * here[0], z + 1

    z = rl.tensor([3.0, 4.0])
    compiled = rl.compile(function, fullgraph=True)
    for _ in range(2):
        x, y = rl.tensor([1.0, 2.0]).to("mica"), rl.tensor([1.0, 2.0]).to("mica")
        found, wanted = compiled(x, z), function(y, z)
        assert [one.device for one in found] == [one.device for one in wanted]
        assert [one.tolist() for one in (*found, x)] == [one.tolist() for one in (*wanted, y)]


def _filled(x):
    x.fill_(1)


def _filled_by_parts(x):
    number = rl.tensor(5.0)
    y = x.clone()
    y[:1] = number
    x.zero_()
    x += number
    return y, y * 2


def _filled_and_copied(x):
    x.fill_(2)
    return x.cpu(), (x * 2).cpu() + 1


def _filled_numbers(x):
    number = rl.tensor(5.0)
    return x.sum().fill_(number), x.sum().copy_(number), x.sum().fill_(2)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("function", [_filled, _filled_by_parts, _filled_and_copied, _filled_numbers])
def test_numbers_are_written_to_tensors_of_the_device(function, fullgraph: bool):
    """Also where nothing reads what is overwritten."""
    x, y = rl.ones(3, device="mica"), rl.ones(3, device="mica")
    compiled = rl.compile(function, fullgraph=fullgraph)
    for _ in range(2):
        found, wanted = compiled(x) or (), function(y) or ()
        assert [one.device for one in found] == [one.device for one in wanted]
        assert [one.tolist() for one in (*found, x)] == [one.tolist() for one in (*wanted, y)]


def test_a_gradient_takes_sizes_that_no_tensor_shows():
    """They have no device."""
    for length in (3, 5):
        x = rl.ones(length, device="mica", requires_grad=True)
        rl.compile(lambda x: x.sum(), dynamic=True)(x).backward()
        assert x.grad.tolist() == [1.0] * length


@pytest.mark.filterwarnings("ignore::rushlight.DeviceWarning")
def test_operators_run_on_a_device_without_graphs_though_nobody_uses_the_result():
    def function(x, y):
        x.exp()
        return y * 2

    x, y = rl.ones(3, device="flint"), rl.ones(3)
    compiled = rl.compile(function)
    for count in (1, 2):
        assert compiled(x, y).tolist() == [2, 2, 2]
        assert rl.backends.fallbacks()["flint", "exp"] == count
    with rl.strict(), refused("V005"):
        compiled(x, y)
    with refused("A006"):
        rl.compile(function, fullgraph=True)(x, y)


def test_what_is_computed_of_numbers_of_the_cpu_stays_there():
    """Code of a device would put it into the device's memory, where the host reads nothing."""

    def function(x, number):
        return x * number, number + 1

    x, number = rl.ones(3, device="mica"), rl.tensor(2.0)
    compiled = rl.compile(function)
    for _ in range(2):
        there, here = compiled(x, number)
        assert (there.device.type, here.device.type, (here + 1).item()) == ("mica", "cpu", 4.0)
    with refused("V002"):
        rl.compile(function, fullgraph=True)(x, number)


@pytest.mark.filterwarnings("ignore::rushlight.DeviceWarning")
def test_a_kernel_of_a_library_runs_where_it_was_registered_for():
    """It gets tensors that are there, and is differentiated; the kernel for all gets copies on the CPU."""
    seen: list[str] = []
    with rl.library.Library("ours", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: (seen.append(f"all {x.device.type}"), x + x)[1])
        library.impl("twice", lambda x: (seen.append(f"mica {x.device.type}"), x * 2)[1], "mica")
        rl.library.register_fake("ours::twice", rl.empty_like)
        rl.library.register_autograd("ours::twice", lambda ctx, gradient: gradient * 2)
        for device in ("cpu", "mica", "flint"):
            x = rl.tensor([1.0, -2.0], device=device, requires_grad=True)
            y = rl.library.OPERATORS["ours::twice"](x)
            y.sum().backward()
            assert (y.device.type, y.tolist(), x.grad.tolist()) == (device, [2.0, -4.0], [2.0, 2.0])
    assert seen == ["all cpu", "mica mica", "all cpu"]
    assert rl.backends.fallbacks()["flint", "ours::twice"] == 1


def test_keys_of_forgotten_devices_are_given_on_once_their_memory_is_gone(mica: rl.backends.Backend):
    held: list[rl.Tensor] = []

    def come(name: str, keep: bool) -> None:
        rl.backends.register(type("Named", (type(mica),), {"name": name})())
        x = rl.ones(3, device=name) * 2
        assert x.tolist() == [2, 2, 2]
        if keep:
            held.append(x)

    def come_and_go(name: str, keep: bool) -> None:
        try:
            come(name, keep)
        finally:
            rl.backends.unregister(name)

    names = [f"visitor{number}" for number in range(10)]
    for name in names[:5]:
        come_and_go(name, keep=False)
    with refused("A004"):
        for name in names[5:]:
            come_and_go(name, keep=True)
    held.clear()
    come_and_go("another", keep=False)
