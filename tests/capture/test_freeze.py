"""`compile(freeze=True)`: weights are packed once, no bit changes, and nothing that is kept is ever out of date."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.build import Executable
from rushlight.capture.api import explain_entries
from rushlight.capture.entry.constant_cache import ConstantCache
from rushlight.nn import functional as F
from rushlight.support.errors import RushlightError
from tensors import same


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    rl.manual_seed(0)
    threads = rl.get_num_threads()
    yield
    rl.set_num_threads(threads)


def executable_of(compiled: Any) -> Executable:
    """The executable of the one trace of a compiled function."""
    (entry,) = explain_entries(compiled)
    return entry.executables[0]


def kept_by(compiled: Any) -> ConstantCache:
    """What the one trace of a compiled function keeps."""
    (entry,) = explain_entries(compiled)
    values = entry.call.__globals__.values()  # pyright: ignore[reportFunctionMemberAccess] - a function
    (kept,) = [value for value in values if isinstance(value, ConstantCache)]
    return kept


def mlp() -> Any:
    return nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 40), nn.LayerNorm(40)).eval()


def small_resnet() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 24, 3, 2, 1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
    ).eval()


class Tied(nn.Module):
    """An embedding that is the last layer's weight too."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(90, 32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, tokens: Any) -> Any:
        x = self.token(tokens)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return F.linear(x, self.token.weight)


def rows(count: int) -> Any:
    return rl.randn(count, 48)


def images(count: int) -> Any:
    return rl.randn(count, 3, 12, 10)


def tokens(count: int) -> Any:
    return rl.randint(0, 90, (2, count))


# Results.


@pytest.mark.generated("make")
@pytest.mark.parametrize(("make", "inputs"), [(mlp, rows), (small_resnet, images), (Tied, tokens)])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_are_those_of_eager_and_of_the_unfrozen_program(
    make: Callable[[], Any], inputs: Callable[[int], Any], threads: int
):
    rl.set_num_threads(threads)
    model = make().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    frozen, plain = rl.compile(model, freeze=True), rl.compile(model)
    with rl.no_grad():
        for count in (5, 1, 2, 33):
            x = inputs(count)
            expected = model(x)
            assert same(frozen(x), expected), count
            assert same(plain(x), expected), count
    assert len(explain_entries(frozen)) == 1  # all sizes share one trace
    assert executable_of(frozen).once is not None


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "reference"])
def test_other_backends_keep_nothing(backend: str):
    model = mlp()
    frozen = rl.compile(model, freeze=True, backend=backend)
    x = rows(3)
    with rl.no_grad():
        assert np.allclose(frozen(x).numpy(), model(x).numpy(), atol=1e-5)
    assert executable_of(frozen).once is None


def test_static_sizes_and_single_rows_are_packed_too():
    model = nn.Linear(200, 300)
    for shape in ((1, 200), (200,)):
        frozen = rl.compile(model, freeze=True, dynamic=False)
        x = rl.randn(*shape)
        with rl.no_grad():
            assert same(frozen(x), model(x))
        assert len(kept_by(frozen).results) == 1


def test_without_weights_nothing_is_kept():
    frozen = rl.compile(nn.Sequential(nn.ReLU(), nn.Softmax(-1)), freeze=True)
    x = rows(4)
    assert same(frozen(x), x.relu().softmax(-1))
    assert executable_of(frozen).once is None


def test_narrow_weights_agree():
    model = mlp().to(rl.bfloat16)
    frozen = rl.compile(model, freeze=True)
    x = rows(7).to(rl.bfloat16)
    with rl.no_grad():
        assert same(frozen(x).float(), model(x).float())


# What is kept.


def test_weight_used_twice_is_packed_once():
    layer = nn.Linear(64, 64)

    def twice(x: Any) -> Any:
        return layer(layer(x).relu())

    frozen = rl.compile(twice, freeze=True)
    x = rl.randn(9, 64)
    with rl.no_grad():
        assert same(frozen(x), twice(x))
    assert len(kept_by(frozen).results) == 1


def test_scalings_are_folded_once_and_views_are_not_kept():
    model = small_resnet()
    frozen = rl.compile(model, freeze=True)
    with rl.no_grad():
        frozen(images(2))
    shapes = sorted([result.numel() for result in kept_by(frozen).results])
    assert shapes[:2] == [16, 24]  # of each normalization one factor for each channel
    assert len(shapes) == 4


def test_constant_result_is_made_anew_for_each_call():
    weight = rl.randn(64, 48)

    def scaled(x: Any) -> Any:
        w = weight.exp() * 2 + 1
        return w, F.linear(x, w)

    frozen = rl.compile(scaled, freeze=True)
    x = rows(5)
    first, product = frozen(x)
    assert same(first, scaled(x)[0]) and same(product, scaled(x)[1])
    first.zero_()
    again, product = frozen(x)
    assert same(again, scaled(x)[0]) and same(product, scaled(x)[1])


def test_values_that_depend_on_sizes_are_no_constants():
    table = rl.randn(100, 48)

    def positions(x: Any) -> Any:
        return x + (table[: x.shape[0]] * 2).exp()

    frozen = rl.compile(positions, freeze=True)
    for count in (3, 50, 100):
        x = rows(count)
        assert same(frozen(x), positions(x))
    assert executable_of(frozen).once is None


def test_it_is_made_once(monkeypatch: pytest.MonkeyPatch):
    times: list[int] = []
    refresh = ConstantCache.refresh
    monkeypatch.setattr(ConstantCache, "refresh", lambda self: times.append(1) or refresh(self))
    model, other = mlp(), mlp()
    frozen = rl.compile(model, freeze=True)
    with rl.no_grad():
        for count in (2, 2, 5, 1):
            frozen(rows(count))
            other[0].weight.mul_(2)
            other[0].weight.data.mul_(2)
            model[0].bias.mul_(2)  # is read where it lies
    assert len(times) == 1


# Writes.


def write_in_place(model: Any) -> None:
    model[0].weight.mul_(2)


def write_to_a_view(model: Any) -> None:
    model[2].weight[3:5].zero_()


def write_to_data(model: Any) -> None:
    model[0].weight.data.add_(1)


def write_to_data_of_data(model: Any) -> None:
    model[2].weight.data[1:].data.add_(1)


def give_other_data(model: Any) -> None:
    model[2].weight.data = rl.randn(40, 64)


def load_state(model: Any) -> None:
    model.load_state_dict({name: rl.randn(*value.shape) for name, value in model.state_dict().items()})


def take_a_step(model: Any) -> None:
    optimizer = rl.optim.SGD(model.parameters(), lr=0.5)
    with rl.enable_grad():
        model(rows(4)).square().mean().backward()
    optimizer.step()


def take_a_compiled_step(model: Any) -> None:
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.5)

    @rl.compile
    def step(x: Any) -> None:
        model(x).square().mean().backward()
        optimizer.step()

    with rl.enable_grad():
        step(rows(4))


WRITES = [
    write_in_place,
    write_to_a_view,
    write_to_data,
    write_to_data_of_data,
    give_other_data,
    load_state,
    take_a_step,
    take_a_compiled_step,
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_writes_are_seen(write: Callable[[Any], None]):
    model = mlp()
    frozen = rl.compile(model, freeze=True)
    x = rows(6)
    with rl.no_grad():
        before = frozen(x)
        write(model)
        after = frozen(x)
        assert not same(before, after)
        assert same(after, model(x))
        assert same(frozen(x), after)


@pytest.mark.parametrize("freeze", [True, False])
def test_another_part_of_the_same_storage_is_seen(freeze: bool):
    both = rl.randn(2, 64, 48)
    layer = nn.Linear(48, 64, bias=False)
    layer.weight.data = both[0]
    compiled = rl.compile(layer, freeze=freeze)
    x = rows(3)
    with rl.no_grad():
        first = compiled(x)
        layer.weight.data = both[1]
        assert not same(compiled(x), first)
        assert same(compiled(x), layer(x))


def test_deep_copies_and_states_are_their_own():
    model = mlp()
    frozen = rl.compile(model, freeze=True)
    x = rows(6)
    with rl.no_grad():
        expected = frozen(x)
        state = frozen.state_dict()
        twin = copy.deepcopy(model)
        assert set(state) == set(mlp().state_dict())
        twin[0].weight.zero_()
        assert same(frozen(x), expected)
        assert same(rl.compile(twin, freeze=True)(x), twin(x))


def test_threads_share_what_is_kept():
    model = mlp()
    frozen = rl.compile(model, freeze=True)
    x = rows(6)
    with rl.no_grad():
        expected = model(x)
    wrong: list[int] = []

    def call() -> None:
        with rl.no_grad():
            wrong.extend([1 for _ in range(20) if not same(frozen(x), expected)])

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(explain_entries(frozen)) == 1


def test_memory_goes_with_the_entry():
    frozen = rl.compile(mlp(), freeze=True)
    with rl.no_grad():
        frozen(rows(2))
    results = [weakref.ref(result.backing) for result in kept_by(frozen).results]
    assert results and all(reference() is not None for reference in results)
    frozen._compiled.reset()
    gc.collect()
    assert all(reference() is None for reference in results)


# Gradients.


def test_arguments_get_gradients_and_frozen_tensors_do_not():
    model = mlp()
    frozen = rl.compile(model, freeze=True)
    x = rows(4).requires_grad_()
    y = x.detach().clone().requires_grad_()
    frozen(x).square().sum().backward()
    model(y).square().sum().backward()
    assert same(x.grad, y.grad)
    model.zero_grad()
    frozen(x).sum().backward()
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_results_without_arguments_behind_them_have_no_history():
    model = mlp()
    frozen = rl.compile(lambda x: (model(rl.ones(2, 48)), model[0].weight * 2, x * 2), freeze=True)
    fixed, scaled, mine = frozen(rows(1).requires_grad_())
    assert mine.requires_grad
    assert not fixed.requires_grad
    assert not scaled.requires_grad
    assert not rl.compile(model, freeze=True)(rows(2)).requires_grad


def test_training_is_refused_and_leaves_the_module_as_it_was():
    norm = nn.BatchNorm1d(48)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    with pytest.raises(RushlightError, match="num_batches_tracked") as caught:
        rl.compile(norm, freeze=True)(rows(4))
    assert caught.value.code == "C016"
    assert all(same(value, before[name]) for name, value in norm.state_dict().items())
    assert norm.weight.requires_grad
    norm(rows(4)).sum().backward()
    assert norm.weight.grad is not None


def test_argument_may_be_written_to():
    weight = rl.randn(48, 48)

    def into(x: Any, out: Any) -> None:
        out.copy_(x @ weight)

    out = rl.zeros(3, 48)
    x = rows(3)
    rl.compile(into, freeze=True)(x, out)
    assert same(out, x @ weight)


# The cache.


PROGRAM = """
import rushlight as rl
from rushlight.capture.api import explain_entries
rl.manual_seed(0)
model = rl.nn.Sequential(rl.nn.Linear(48, 64), rl.nn.ReLU(), rl.nn.Linear(64, 40)).eval()
frozen, plain = rl.compile(model, freeze=True), rl.compile(model)
x = rl.randn(3, 48)
with rl.no_grad():
    same = (frozen(x) == plain(x)).all().item()
print(*[explain_entries(found)[0].executables[0].cached for found in (frozen, plain)], same)
"""


def test_second_process_finds_both_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path))
    said = [subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True) for _ in "12"]
    assert [done.stdout.split() for done in said] == [["False", "False", "True"], ["True", "True", "True"]]
