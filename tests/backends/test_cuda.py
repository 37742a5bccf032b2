"""The device `cuda` on an emulated driver: results, the calls that it makes, lifetimes, and calls that fail."""

import gc
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from fake_driver import ILLEGAL_ADDRESS, NAMES, FakeDriver
from rushlight.conformance import test_compile as compile_tier
from rushlight.conformance import test_memory as memory_tier
from rushlight.conformance.calls import compared
from rushlight.eager.execution.copying import region_of

SOURCE = Path(__file__).parents[2] / "packages" / "rushlight-cuda" / "src"
F = rl.nn.functional


class Fake:
    """A fake driver and the device that calls it."""

    def __init__(self, driver: FakeDriver, device: Any, package: Any) -> None:
        self.driver, self.device, self.package = driver, device, package

    def live(self, kind: type | str) -> int:
        """How many handles of a kind there are."""
        found = [one[0] if isinstance(one, tuple) else one for one in self.driver.handles.values()]
        return sum([one == kind if isinstance(kind, str) else isinstance(one, kind) for one in found])


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """The device `cuda`, on an emulated driver."""
    monkeypatch.syspath_prepend(str(SOURCE))
    import rushlight_cuda
    from rushlight_cuda import backend

    driver, compile_ptx = FakeDriver(tmp_path), backend.compile_ptx
    monkeypatch.setattr(backend, "compile_ptx", lambda graph, name: driver.emulate(compile_ptx(graph, name)))
    device = rushlight_cuda.Cuda()
    device.__dict__["driver"] = rushlight_cuda.Driver((str(driver.path),))
    rl.backends.register(device)
    yield Fake(driver, device, rushlight_cuda)
    rl.backends.unregister("cuda")
    rl.backends.reset_fallbacks()
    assert not driver.faults, "kernels that race, or leave their buffers"
    for name in [name for name in sys.modules if name.partition(".")[0] == "rushlight_cuda"]:
        del sys.modules[name]


def randn(*shape: int) -> rl.Tensor:
    return rl.randn(*shape, generator=rl.Generator().manual_seed(sum(shape)))


FUNCTIONS: dict[str, Callable[[rl.Tensor], Any]] = {
    "pointwise": lambda x: x * 2 + x.exp(),
    "softmax": lambda x: x.softmax(-1),
    "product": lambda x: x @ x.t(),
    "a number of the host's": lambda x: x + rl.tensor(3.0) * 2,
    "index_add": lambda x: rl.zeros(3, device=x.device).index_add(0, (x[:, 0] > 0).long(), x[:, 0]),
    "views": lambda x: rl.cat((x.t()[1:], x.t()[:1]), 0).flip(0),
    "scalar": lambda x: x.sum().item(),
}


@pytest.mark.generated("name")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (70, 130)], ids=str)
def test_results_have_the_bits_of_the_cpu(fake: Fake, name: str, shape: tuple[int, int]):
    function, x = FUNCTIONS[name], randn(*shape)
    for run in (function, rl.compile(function)):
        wanted, found = function(x), run(x.to("cuda"))
        if isinstance(wanted, rl.Tensor):
            assert found.device.type == "cuda"
            np.testing.assert_array_equal(found.cpu().numpy(), wanted.numpy())
        else:
            assert found == wanted
    assert not rl.backends.fallbacks()


@pytest.mark.generated("name")
@pytest.mark.parametrize("name", ["embedding_bag", "max_pool2d", "as_strided", "scatter_add", "var_mean"])
def test_operators_give_what_the_cpu_gives(fake: Fake, name: str):
    assert not compared(name, "cuda", 0.0, lambda call, place: call.results(place))


def asked(tier: Any) -> list[Any]:
    """The questions of a tier that need nothing but the device."""
    tests = [test for name, test in vars(tier).items() if name.startswith("test_")]
    return [test for test in tests if list(inspect.signature(test).parameters) in (["device"], ["device", "tolerance"])]


@pytest.mark.parametrize("question", [*asked(memory_tier), *asked(compile_tier)], ids=lambda test: test.__name__)
def test_questions_for_devices(fake: Fake, question: Callable[..., None]):
    question(*["cuda", 0.0][: len(inspect.signature(question).parameters)])


def test_a_training_step_compiles(fake: Fake):
    def step(x: rl.Tensor, w: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        w = w.detach().requires_grad_()
        loss = F.cross_entropy((x @ w).relu(), x.argmax(-1) % 5)
        (gradient,) = rl.autograd.grad(loss, [w])
        return loss.detach(), gradient

    x, w = randn(9, 70), randn(70, 5)
    for a, b in zip(step(x, w), rl.compile(step, fullgraph=True)(x.to("cuda"), w.to("cuda")), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.cpu().numpy())


def test_tensor_cores_multiply_16_bit_numbers(fake: Fake):
    x = randn(33, 40).half()
    found = x.to("cuda") @ x.to("cuda").t()
    np.testing.assert_allclose(found.cpu().numpy(), (x @ x.t()).numpy(), rtol=2e-3, atol=1e-2)


def test_frozen_weights_are_prepared_once(fake: Fake):
    model = rl.nn.Linear(8, 4)
    wanted = model(randn(3, 8)).detach().numpy()
    compiled = rl.compile(model.to("cuda").eval(), freeze=True)
    for _ in range(3):
        with rl.no_grad():
            np.testing.assert_array_equal(compiled(randn(3, 8).to("cuda")).cpu().numpy(), wanted)


def test_an_index_that_is_out_of_range_changes_nothing(fake: Fake):
    @rl.compile
    def write(x: rl.Tensor, at: rl.Tensor) -> None:
        x.add_(x[at].sum())

    x = rl.ones(4, device="cuda")
    with pytest.raises(rl.RushlightError) as caught:
        write(x, rl.tensor([7]).to("cuda"))
    assert caught.value.code[0] != "V"
    assert x.tolist() == [1.0] * 4


def test_large_copies_go_in_pieces(fake: Fake):
    device = fake.device
    device.__dict__["_staging"] = fake.package.queue.Staging(device.driver, 1000)
    x = rl.arange(1601, dtype=rl.float64).reshape(1601, 1).expand(1601, 3)
    np.testing.assert_array_equal(x.to("cuda").cpu().numpy(), x.numpy())
    assert fake.driver.calls.count("cuMemcpyHtoDAsync_v2") >= 13


def test_nothing_is_asked_of_the_driver_before_memory_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(SOURCE))
    import rushlight_cuda

    monkeypatch.setattr("rushlight_cuda.driver.LIBRARIES", ("libcuda-of-nobody.so",))
    device = rushlight_cuda.Cuda()
    assert "driver" not in device.__dict__


def test_a_missing_driver_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(SOURCE))
    import rushlight_cuda

    with pytest.raises(rl.DeviceError) as caught:
        rushlight_cuda.Driver(("libcuda-of-nobody.so",))
    assert caught.value.code == "V009"
    assert "install NVIDIA's driver" in str(caught.value)
    device = rushlight_cuda.Cuda()
    monkeypatch.setattr("rushlight_cuda.backend.Driver", lambda: rushlight_cuda.Driver(("libcuda-of-nobody.so",)))
    assert "driver" in device.lacks()[0]


def test_no_device_and_an_old_one_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Fake):
    fake.driver.devices = 0
    with pytest.raises(rl.DeviceError) as caught:
        fake.package.Driver((str(fake.driver.path),))
    assert caught.value.code == "V009"
    fake.driver.devices, fake.driver.capability = 1, (7, 5)
    with pytest.raises(rl.DeviceError) as caught:
        rl.ones(3, device="cuda") + 1  # pyright: ignore[reportUnusedExpression]
    assert caught.value.code == "V009"
    assert fake.device.lacks()


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [((8, 0), "sm_80"), ((8, 9), "sm_80"), ((9, 0), "sm_90a"), ((10, 0), "sm_100"), ((12, 0), "sm_100")],
)
def test_code_is_for_the_architecture_that_the_gpu_runs(fake: Fake, capability: tuple[int, int], architecture: str):
    fake.driver.capability = capability
    assert fake.device.architecture == architecture


def work(fake: Fake) -> rl.Tensor:
    """All that a program does: memory, copies, code, launches, queues, events, a recording."""
    x = randn(4, 6).to("cuda")
    queue = fake.device.stream()
    with queue:
        y = x.softmax(-1)
    begin, end = queue.record_event(), queue.record_event()
    end.synchronize()
    assert end.query()
    begin.elapsed_time(end)
    recording = fake.device.record(lambda x: x * 2, y)
    recording.replay()
    z = rl.empty_like(y)
    fake.device.copy(region_of(z), region_of(recording.results))
    return z.cpu()


def test_what_a_program_makes_goes_with_it(fake: Fake):
    np.testing.assert_array_equal(work(fake).numpy(), (randn(4, 6).softmax(-1) * 2).numpy())
    gc.collect()
    assert fake.live("stream") == 1  # the device's own
    assert fake.live("graph") == 0
    assert fake.live(list) == 0  # events, and what graphs run
    assert not fake.driver.capturing
    fake.device.memory.empty_cache()
    held = len(fake.driver.memory)
    x = rl.ones(1 << 16, device="cuda")
    del x
    fake.device.memory.empty_cache()
    assert len(fake.driver.memory) == held


CALLED = sorted(
    {*NAMES} - {"cuGetErrorName", "cuGetErrorString"} - {name for name in NAMES if "Destroy" in name or "Free" in name}
)


@pytest.mark.generated("name")
@pytest.mark.parametrize("name", [name for name in CALLED if name != "cuModuleUnload"])
def test_a_call_that_fails_is_an_error_and_the_next_program_runs(fake: Fake, name: str):
    fake.driver.failing[name] = ILLEGAL_ADDRESS
    setup = name in ("cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain")
    with pytest.raises(rl.DeviceError) as caught:
        if setup:
            fake.package.Driver((str(fake.driver.path),))
        thread_error: list[BaseException] = []
        if name == "cuCtxSetCurrent":
            # Each thread enters the context at its first call.
            def enters() -> None:
                try:
                    fake.device.driver.allocate(64)
                except rl.DeviceError as error:
                    thread_error.append(error)

            thread = threading.Thread(target=enters)
            thread.start()
            thread.join()
            raise thread_error[0]
        work(fake)
    assert caught.value.code == "V010"
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in str(caught.value)
    assert name in str(caught.value)
    fake.driver.failing.clear()
    assert fake.device.recording is None
    np.testing.assert_array_equal(work(fake).numpy(), (randn(4, 6).softmax(-1) * 2).numpy())


def test_code_that_the_driver_refuses_comes_with_its_log(fake: Fake, monkeypatch: pytest.MonkeyPatch):
    from rushlight.build.gpu import GpuCode

    x = rl.ones(3, device="cuda")
    broken = fake.package.backend.compile_ptx
    monkeypatch.setattr(fake.package.backend, "compile_ptx", lambda *given: GpuCode("no text", (), broken(*given).plan))
    with pytest.raises(rl.DeviceError) as caught:
        x.tanh()
    assert caught.value.code == "V010"
    assert "line 1: no target" in str(caught.value)


def test_memory_that_is_not_there_is_an_error(fake: Fake):
    fake.driver.memory_bytes = 1 << 20
    with pytest.raises(rl.RushlightError) as caught:
        rl.empty(1 << 20, device="cuda")
    assert caught.value.code.startswith("M")
    assert rl.ones(16, device="cuda").sum().item() == 16


def test_a_recording_reads_what_is_there_when_it_is_replayed(fake: Fake):
    x = rl.ones(5, device="cuda")
    recording = fake.device.record(rl.compile(lambda x: (x * 2).exp().sum()), x)
    x.fill_(0)
    recording.replay()
    assert recording.results.item() == 5
    launched = len(fake.driver.launches)
    recording.replay()
    assert len(fake.driver.launches) == launched, "one call of the driver's, whatever was recorded"


def test_what_a_recording_cannot_repeat_is_refused(fake: Fake):
    x = rl.ones(5, device="cuda")
    for function in (lambda x: x.sum().item(), lambda x: x + rl.ones(5).to("cuda"), lambda x: x.cpu()):
        with pytest.raises(rl.DeviceError) as caught:
            fake.device.record(function, x)
        assert caught.value.code == "V010"
        assert fake.device.recording is None
    assert (x + 1).tolist() == [2.0] * 5


def test_queues_run_in_the_order_in_which_a_program_uses_them(fake: Fake):
    queue = fake.device.stream()
    x = rl.ones(3, device="cuda")
    with queue:
        y = x + 1
        inside = fake.driver.launches[-1].stream
        with fake.device.stream():
            z = y + 1
    outside = (z + 1).cpu()
    assert outside.tolist() == [4.0] * 3
    assert inside == queue.handle.value != fake.driver.launches[-1].stream
    assert fake.driver.calls.count("cuStreamWaitEvent") == 4


def test_other_threads_enter_the_context(fake: Fake):
    x, found = rl.ones(3, device="cuda"), []
    thread = threading.Thread(target=lambda: found.append((x + 1).tolist()))
    thread.start()
    thread.join()
    assert found == [[2.0] * 3]
    assert fake.driver.calls.count("cuCtxSetCurrent") == 2
