"""Tensors without data: the meta device, fake tensors, and sizes that are symbols."""

import numpy as np
import pytest

from rushlight.compiler import compile as compile_function
from rushlight.eager.creation import empty, empty_like, full_like, ones, zeros_like
from rushlight.eager.functions import cat
from rushlight.eager.handle import make
from rushlight.eager.symbols import SymBool, SymFloat, SymInt, sym_max
from rushlight.eager.tensor_meta import form_of
from rushlight.func import functionalize, vmap
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.ir.dtype import float32, float64, int64
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope


def code_of(function):
    with pytest.raises(RushlightError) as error:
        function()
    return error.value.code


@pytest.fixture
def scope():
    return Scope()


def fake(scope, *sizes, dtype=float32):
    shape = tuple(scope.symbol(hint=size) if size > 1 else size for size in sizes)
    return make(None, form_of(shape, dtype))


def test_tensors_like_one_without_data_have_data_where_a_device_is_named():
    like = empty(3, 2, device="meta", dtype=float64).mT
    assert zeros_like(like, device="cpu").tolist() == [[0.0] * 3] * 2
    assert full_like(like, 2, device="cpu", dtype=int64).tolist() == [[2] * 3] * 2
    made = empty_like(like, device="cpu").fill_(1)
    assert made.sum().item() == 6 and made.stride() == like.stride()
    assert zeros_like(like).is_meta and zeros_like(ones(2), device="meta").is_meta
    assert code_of(lambda: full_like(like, empty((), device="meta"), device="cpu")) == "V003"


def test_meta_tensors_have_types_and_no_data():
    x = empty(2, 3, device="meta", dtype=float64)
    y = (x @ empty(3, 4, device="meta", dtype=float64)).mT + 1
    assert y.shape == (4, 2)
    assert y.dtype is float64
    assert y.stride() == (1, 4)
    assert y.device.type == "meta"
    assert y.is_meta
    assert x[0].shape == (3,)
    assert x.add_(1) is x
    assert code_of(x.tolist) == "V003"
    assert code_of(lambda: x + empty(2, device="meta")) == "S001"
    assert code_of(lambda: x.add_(empty(3, 2, 3, device="meta"))) == "S009"


def test_meta_and_cpu_do_not_mix():
    assert code_of(lambda: empty(2, device="meta") + ones(2)) == "V002"


def test_meta_tensors_are_differentiated():
    x = empty(2, 3, device="meta", requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.shape == (2, 3)
    assert x.grad.is_meta


def test_fake_tensors_carry_symbols(scope):
    x = fake(scope, 5, 3)
    y = fake(scope, 3, 7)
    z = (x @ y).mT.reshape(-1)
    rows, columns = x.shape[0], y.shape[1]
    assert isinstance(rows, SymInt)
    assert z.shape[0] is not None
    assert isinstance(z.shape[0] == rows * columns, (bool, SymBool))
    assert bool(z.shape[0] == rows * columns)
    assert z.numel() == rows * columns or bool(z.numel() == rows * columns)


def test_relations_are_guarded_and_values_are_not(scope):
    x, y = fake(scope, 5), fake(scope, 5)
    _ = x + y
    assert len(scope.guards) == 1
    _ = x * 2 + y
    assert len(scope.guards) == 1


def test_fake_tensors_are_differentiated(scope):
    x = fake(scope, 5, 3)
    x.requires_grad = True
    loss = ((x * 2)[1:].exp().softmax(-1)).sum()
    loss.backward()
    assert tuple(x.grad.form.shape) == tuple(x.form.shape)
    z = x * 3
    z[0].mul_(2)
    z.sum().backward()
    assert tuple(x.grad.form.shape) == tuple(x.form.shape)


def test_fake_tensors_join(scope):
    x, y = fake(scope, 5, 3), fake(scope, 4, 3)
    found = cat([x, y])
    assert bool(found.shape[0] == x.shape[0] + y.shape[0])


def test_symbolic_integers_compute_like_integers(scope):
    n = SymInt(scope.symbol(hint=12))
    assert isinstance(n + 1, SymInt)
    assert n - n == 0
    assert isinstance(n * 2 // 2, SymInt)
    assert (2 * n) % 2 == 0
    assert int(-n) == -12
    assert 100 - n == 88
    assert n // 5 == 2
    assert n % 5 == 2
    assert n**2 == 144
    assert n / 8 == 1.5
    assert isinstance(n / 8, float)
    assert float(n) == 12.0
    assert n > 3
    assert not n < 3
    assert n != 5
    assert list(range(20))[n] == 12
    assert int(sym_max(n, 20)) == 20
    assert isinstance(SymFloat(n) * 0.5, float)
    assert hash(n) == hash(n + 0)
    assert n + 0.5 == 12.5
    assert str(n)


def test_asking_for_a_value_guards_it_and_asking_for_truth_guards_the_relation(scope):
    n = SymInt(scope.symbol(hint=12))
    assert (n > 3) in (True, SymBool) or bool(n > 3)
    before = len(scope.guards)
    assert bool(n > 3)
    assert len(scope.guards) == before
    assert int(n) == 12
    assert len(scope.guards) == before + 1


def test_reading_a_fake_value_is_refused(scope):
    x = fake(scope, 5)
    assert code_of(lambda: x[0].item()) == "C010"
    assert code_of(lambda: bool(x.sum() > 0)) == "C010"
    assert code_of(lambda: x[x > 0]) == "V003"
    assert "fake" in repr(x)
    assert np.dtype(int64.numpy) == np.int64


def test_what_is_left_of_a_trace_is_refused_by_its_code():
    left = []

    def kept(x):
        left.extend([x * 3, x.shape[0]])
        return x * 2

    make_fx(kept, tracing_mode="symbolic")(ones(5, 3))
    tensor, size = left
    for call in (lambda: ones(5, 3) + tensor, lambda: tensor[0], lambda: int(size), lambda: ones(size)):
        assert code_of(call) == "C010"
    doubled = compile_function(lambda x: x * 2, fullgraph=True)
    in_global = compile_function(lambda x: x + tensor, fullgraph=True)
    assert [code_of(lambda x=x: doubled(x)) for x in left] == ["C010", "C010"]
    assert code_of(lambda: in_global(ones(5, 3))) == "C010"
    assert compile_function(lambda x: x * 2)(tensor).shape[1] is not None  # in parts Python runs it
    make_fx(kept, tracing_mode="fake")(ones(5, 3))
    assert code_of(lambda: doubled(left[2])) == "C010"


@pytest.mark.parametrize("way", [functionalize, vmap])
def test_a_graph_for_tensors_takes_no_placeholder_of_their_form(way):
    left = []
    doubled, in_parts = (compile_function(lambda x: x * 2, fullgraph=full) for full in (True, False))
    for compiled in (doubled, in_parts):
        assert compiled(ones(3)).tolist() == [2, 2, 2]
    way(lambda x: left.append(x * 3) or x.sum())(ones(3) if way is functionalize else ones(2, 3))
    assert code_of(lambda: doubled(left[0])) == "C010"
    assert in_parts(left[0]).shape == (3,)
    assert doubled(ones(3)).tolist() == [2, 2, 2]


def test_a_size_of_another_trace_is_no_result_of_a_graph():
    left = []
    make_fx(lambda x: left.append(x.shape[0]) or x, tracing_mode="symbolic")(ones(5, 3))
    reads = compile_function(lambda x: (x * 2, left[0]), fullgraph=True)
    assert code_of(lambda: reads(ones(3))) == "C010"
    in_parts = compile_function(lambda x: (x * 2, left[0]))
    assert in_parts(ones(3))[1] is left[0]
