"""Which calls share an executable, and what a call launches."""

import threading
from contextlib import nullcontext
from contextvars import copy_context
from types import ModuleType

import numpy as np
import pytest

from rushlight.compiler import disable
from rushlight.eager.creation import arange, empty, full, linspace, ones, tensor, zeros
from rushlight.eager.execution import artifact
from rushlight.eager.execution.attributes import RUN_TIME, split_sizes
from rushlight.eager.execution.signature import ONE, ROW_MAJOR, Layout, collapsed_signature, signature_of
from rushlight.eager.execution.tables import forget_plans
from rushlight.eager.functions import pad, where
from rushlight.eager.tensor_meta import form_of
from rushlight.ir.dtype import bool_, float32, float64, int64
from rushlight.ops import OPERATORS
from rushlight.support import settings
from rushlight.support.errors import ExecutionError
from rushlight.support.settings import SETTINGS


@pytest.fixture
def compiled(monkeypatch):
    """The number of executables made since the test began."""
    made = []
    original = artifact.build.compile_graph

    def counted(graph, chooser=None):
        made.append(graph)
        return original(graph, chooser=chooser)

    monkeypatch.setattr(artifact.build, "compile_graph", counted)
    artifact.reset()
    forget_plans()
    yield made
    forget_plans()


def array(*shape):
    return tensor(np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape))


def test_all_contiguous_pointwise_calls_of_one_shape_share_an_artifact(compiled):
    for shape in ((7,), (2, 3), (1, 4, 1, 2), (5, 1), (1,), (3, 3, 3)):
        x = array(*shape)
        np.testing.assert_array_equal((x + x).numpy(), 2 * x.numpy())
    assert len(compiled) == 1


def test_permuted_operands_collapse_too(compiled):
    x = array(2, 3, 4).permute(2, 0, 1)
    assert (x * x).stride() == x.stride()
    np.testing.assert_array_equal((x * x).numpy(), x.numpy() ** 2)
    np.testing.assert_array_equal((array(9) * array(9)).numpy(), array(9).numpy() ** 2)
    assert len(compiled) == 1


def test_numbers_are_not_constants(compiled):
    x = array(3)
    for value in (1.0, 2.5, -3.0):
        assert (x * value).tolist() == (x.numpy() * value).tolist()
    assert len(compiled) == 1
    _ = x * 2
    assert len(compiled) == 2  # an int is another class


def test_ranges_take_their_numbers_at_run_time(compiled):
    for start, end, step in ((0.0, 1.0, 0.25), (2.5, 0, -0.5), (-1, 7, 0.75)):
        np.testing.assert_array_equal(arange(start, end, step).numpy(), np.arange(start, end, step, dtype=np.float32))
    first = len(compiled)
    assert first <= 3  # ints among the ends are another class
    for value in (3.0, 4.5, 11.0, 1e3):
        assert arange(value).shape == (int(np.ceil(value)),)
        assert linspace(0.0, value, 5).tolist()[-1] == value
    assert len(compiled) == first + 1  # that of linspace


def test_broadcasts_differ_by_pattern_not_by_size(compiled):
    for rows, columns in ((2, 3), (4, 5), (7, 2)):
        x, row = array(rows, columns), array(columns)
        np.testing.assert_array_equal((x + row).numpy(), x.numpy() + row.numpy())
    assert len(compiled) == 1
    x, column = array(2, 3), array(2, 1)
    np.testing.assert_array_equal((x + column).numpy(), x.numpy() + column.numpy())
    assert len(compiled) == 2


def test_products_take_all_sizes(compiled):
    for m, k, n in ((2, 3, 4), (5, 7, 2), (8, 8, 8), (3, 16, 5)):
        a, b = array(m, k), array(k, n)
        np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-6)
    assert len(compiled) == 1
    a, b = array(4, 3), array(5, 4)
    np.testing.assert_allclose((a.mT @ b.mT).numpy(), a.numpy().T @ b.numpy().T, rtol=1e-6)
    assert len(compiled) == 2


def test_sizes_among_attributes_travel(compiled):
    for size in ((2, 3), (4, 5), (7, 0)):
        assert full(size, 2.5).tolist() == np.full(size, 2.5).tolist()
    assert len(compiled) == 1
    for before, after in ((2, 3), (4, 2), (0, 5)):
        found = pad(array(3), (before, after))
        np.testing.assert_array_equal(found.numpy(), np.pad(array(3).numpy(), (before, after)))
    assert zeros(0, 3).tolist() == []


def test_views_and_empty_results_launch_nothing(compiled):
    x = array(4, 3)
    _ = (x[1:], x.mT, x.reshape(2, 6), x[None, 0], x.expand(2, 4, 3), x.unflatten(0, (2, 2)), x.mT.split(2))
    _ = (x[4:] + 1, x[:, :0] @ ones(0, 2) if False else x[4:] * 2)
    assert compiled == []


def test_in_place_calls_share_with_sizes_and_write_to_strided_targets(compiled):
    for shape in ((4,), (2, 3)):
        x = array(*shape)
        x.add_(1.0)
        np.testing.assert_array_equal(x.numpy(), array(*shape).numpy() + 1)
    assert len(compiled) == 1
    base = zeros(4, 4)
    count = len(compiled)
    base[:, 1].add_(1.0)
    base[1:3, 2].add_(2.0)
    assert base.sum().item() == 8.0
    assert base[:, 1].tolist() == [1.0] * 4
    assert len(compiled) <= count + 3


def test_one_backward_node_is_one_executable(compiled):
    a, b = array(2, 3).requires_grad_(), array(3, 4).requires_grad_()
    product = a @ b
    count = len(compiled)
    product.backward(ones(2, 4))
    names = {call.op.name for graph in compiled[count:] for call in graph.calls}
    # The ones, one executable with both products, and no copies: the leaves take what it gives.
    backward = [graph for graph in compiled[count:] if len(graph.outputs) == 2]
    assert len(backward) == 1
    assert "matmul" in names or "mm" in names
    c = array(2, 3).requires_grad_()
    again = c @ array(3, 4)
    count = len(compiled)
    again.backward(ones(2, 4))
    (only,) = [graph for graph in compiled[count:] if graph.calls]
    assert len(only.outputs) == 1


def test_plans_of_derivatives_are_forgotten_with_the_others(compiled):
    made = []
    for _ in range(2):
        a = array(2, 3).requires_grad_()
        artifact.reset()
        forget_plans()
        count = len(compiled)
        (a @ array(3, 4)).backward(ones(2, 4))
        made.append(len(compiled) - count)
    assert made == [3, 3]


def test_gradients_that_are_views_launch_nothing(compiled):
    x = array(2, 3).requires_grad_()
    y = x.mT.reshape(3, 2)[None].transpose(0, 1)
    seed = ones(3, 1, 2)
    count = len(compiled)
    (y.grad_fn.run([seed], False, set()))
    assert len(compiled) == count


# Signatures.


def test_signatures_number_sizes_and_classify_layouts():
    forms = [
        form_of((2, 1, 4), float32),
        form_of((4, 3), float64, strides=(1, 4)),
        form_of((4, 3), float64, strides=(8, 2)),
        form_of((5, 3), float64, strides=(0, 1)),
    ]
    found = signature_of(forms)
    assert [spec.dims for spec in found.specs] == [(0, ONE, 1), (2, 3), (4, 5), (6, 7)]
    assert [spec.layout for spec in found.specs] == [
        ROW_MAJOR,
        Layout("ordered", (1, 0)),
        Layout("strided", (None, None)),
        Layout("strided", (0, 1)),
    ]
    assert found.values == (2, 4, 4, 3, 4, 3, 5, 3, 8, 2)


def test_collapsing_merges_what_every_operand_walks_as_one():
    x, row, out = form_of((2, 3, 4), float32), form_of((4,), float32), form_of((2, 3, 4), float32)
    found = collapsed_signature([x, row], out)
    assert found.values == (6, 4)
    assert [spec.dims for spec in found.specs] == [(0, 1), (ONE, 1), (0, 1)]
    assert collapsed_signature([x, x], out).values == (24,)
    scalar = form_of((), float32)
    assert collapsed_signature([scalar], scalar).specs[0].dims == ()
    assert collapsed_signature([form_of((1, 1), float32), scalar], form_of((1, 1), float32)).specs[1].dims == ()


def test_a_dim_in_which_nothing_moves_keeps_its_size():
    wide = form_of((3, 4), float32, strides=(0, 1))
    found = collapsed_signature([wide], form_of((3, 4), float32))
    assert found.specs[0].dims == (0, 1)
    assert tensor([1.0, 2.0]).expand(3, 2).add(1).tolist() == [[2.0, 3.0]] * 3
    assert (tensor([1.0]).expand(2, 3) * tensor(2.0).expand(2, 3)).tolist() == [[2.0] * 3] * 2


def test_promotion_survives_collapsing():
    single = ones(1, 1, dtype=float32)
    assert (single + tensor(1.0, dtype=float64)).dtype is float32
    assert (tensor(1.0) + ones(1, dtype=float64)).dtype is float64
    assert where(tensor([True]), tensor(1.0), tensor(2, dtype=int64)).dtype is float32
    assert empty(0, dtype=bool_).dtype is bool_


def test_sizes_of_one_stay_literal():
    op = OPERATORS["zeros"]
    key, sizes = split_sizes(op, {"size": (1, 5, 0), "dtype": None, "device": None})
    assert sizes == [5, 0]
    assert key[0][1][1:] == (RUN_TIME, RUN_TIME)


OTHER_VALUES = {
    "backend": "reference",
    "target": "x86-64-v3",
    "numerics": "fast",
    "optimise": 0,
    "nan_asserts": True,
    "without": ("rows",),
}


@pytest.fixture
def keys_compiled(monkeypatch):
    """The settings' keys under which executables of eager calls are made, one for each."""
    made = []
    original = artifact.build.compile_graph

    def noted(graph, *given, **named):
        made.append(settings.key())
        return original(graph, *given, **named)

    own = ModuleType("build")  # graphs are compiled by that of all
    vars(own).update(vars(artifact.build), compile_graph=noted)
    monkeypatch.setattr(artifact, "build", own)
    artifact.reset()
    forget_plans()
    yield made
    artifact.reset()
    forget_plans()


@disable  # where bodies of tests are compiled
def calls_of_all_kinds():
    """Pointwise calls and reductions, recorded and not, a write, an index with its check, and their gradients."""
    x, w = full((3,), 0.5), full((3,), 2.0).requires_grad_()
    for _ in range(3):  # in Python, then learned by native code, then native
        (w * x).sum().backward()
        (x + 1.0).mul_(x).index_select(0, tensor([1, 2]))


def test_other_values_are_of_all_settings_in_the_key():
    assert set(OTHER_VALUES) == {name for name, row in SETTINGS.items() if row.in_key}


@pytest.mark.parametrize("block_first", [False, True])
@pytest.mark.parametrize("name", list(OTHER_VALUES))
def test_a_block_and_what_is_outside_of_it_share_no_executables(name, block_first, keys_compiled):
    block = {name: OTHER_VALUES[name]}
    for at in range(4):
        with settings.override(**block) if (at % 2 == 0) == block_first else nullcontext():
            calls_of_all_kinds()
            keys_compiled.append(settings.key())
    first, second = keys_compiled[0], keys_compiled[-1]
    each = keys_compiled.count(first) - 1
    assert each > 7
    assert keys_compiled == [*[first] * each, *[second] * each, first, second]


def test_a_context_that_outlives_its_block_keeps_its_executables(keys_compiled):
    calls_of_all_kinds()
    with settings.override(optimise=0) as within:
        kept = copy_context()
    made = len(keys_compiled)
    kept.run(calls_of_all_kinds)
    assert set(keys_compiled[made:]) == {within.key}
    made = len(keys_compiled)
    thread = threading.Thread(target=calls_of_all_kinds)
    with settings.override(optimise=0):
        thread.start()
        thread.join()
    assert len(keys_compiled) == made


def test_an_update_of_the_process_makes_other_executables(keys_compiled):
    before = settings.get().optimise
    calls_of_all_kinds()
    made = len(keys_compiled)
    try:
        settings.update(optimise=0)
        calls_of_all_kinds()
        assert keys_compiled[made:] == [settings.key()] * made
        settings.update(num_threads=settings.get().num_threads)
        calls_of_all_kinds()
    finally:
        settings.update(optimise=before)
    calls_of_all_kinds()
    assert len(keys_compiled) == 2 * made


def test_a_block_checks_eager_calls_for_nan_and_what_follows_is_unchecked():
    x = full((2,), 0.5, dtype=float64)
    for _ in range(3):
        assert x.acosh().isnan().all()
    with settings.override(nan_asserts=True), pytest.raises(ExecutionError, match="acosh: made NaN"):
        x.acosh()
    assert x.acosh().isnan().all()
