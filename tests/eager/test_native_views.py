"""Native calls with attributes, views and writes against Python's: one table of programs, asked both ways."""

import itertools

import numpy as np
import pytest
from tests.eager.native_outcomes import both, described, later_frames, native_only, outcome, tape_of

import rushlight as rl
from rushlight.eager import python_calls
from rushlight.eager.interception import TorchDispatchMode
from rushlight.eager.native import describe, learning
from rushlight.nn import functional
from rushlight.support import settings

pytestmark = [pytest.mark.core, pytest.mark.unpoisoned]

VIEWS = {
    "select": lambda x: x[1],
    "select-last": lambda x: x[-1],
    "slice": lambda x: x[1:3],
    "slice-steps": lambda x: x[::2],
    "slice-open": lambda x: x[1:],
    "several": lambda x: x[1:, ::2],
    "column": lambda x: x[:, 1],
    "ellipsis": lambda x: x[..., 1],
    "new-dim": lambda x: x[None, 1:],
    "whole": lambda x: x[...],
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "permute": lambda x: x.permute(1, 0),
    "view": lambda x: x[0].view(2, 2),
    "reshape": lambda x: x[:, 1].reshape(2, 2),
    "reshape-copies": lambda x: x.t().reshape(16),
    "flatten": lambda x: x[1:].flatten(),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x[1:2].squeeze(0),
    "expand": lambda x: x[1].expand(3, 4),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "as-strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
    "as-strided-of-a-view": lambda x: x[1:].as_strided((2, 2), (1, 1), 0),
    "of-a-view": lambda x: x[1:][:, 1:].t()[1],
    "unbind": lambda x: x.unbind(1)[2],
    "split": lambda x: x.split(3)[1],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "detach": lambda x: x[1:].detach(),
    "out-of-range": lambda x: x[4],
    "outside": lambda x: x.as_strided((9, 9), (9, 9)),
    "too-many": lambda x: x[1, 2, 3],
}


def kinds(name):
    x = rl.arange(16.0).reshape(4, 4)
    if name == "plain":
        return x
    if name == "integers":
        return x.int()
    w = x.clone().requires_grad_()
    return {
        "leaf": lambda: w,
        "parameter": lambda: rl.nn.Parameter(x.clone()),
        "computed": lambda: w * 2.0,
        "view": lambda: w.t(),
        "rewritten": lambda: rewritten(w * 2.0),
    }[name]()


def rewritten(base):
    view = base.t()
    base.mul_(2.0)
    return view


KINDS = ["integers", "parameter", "computed", "view", "rewritten"]


def relation(tensor, base):
    """How a tensor is related to others, but for which objects these are."""
    view = tensor.view_of
    steps = view and [(op.name, others, dict(attrs), list(attrs)) for op, others, attrs in view.steps]
    above = view and (
        view.recorded,
        view.rebases,
        view.base is base or view.base is (base.view_of and base.view_of.base),
    )
    same = tensor.backing is base.backing, tensor.version is base.version
    return tensor.form, tensor.offset, tensor.keys, type(tensor), steps, above, same


def shown(call, base):
    try:
        tensor = call(base)
    except rl.RushlightError as error:
        return error.code, error.message
    return relation(tensor, base), described(tensor.detach()), tape_of(tensor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_those_that_python_makes(name, kind):
    base = kinds(kind)
    for scope in (rl.enable_grad, rl.no_grad):
        with scope():
            both(lambda: shown(VIEWS[name], base))


@pytest.mark.parametrize("kind", ["computed", "view"])
@pytest.mark.parametrize(
    "name", [name for name in VIEWS if name not in ("detach", "out-of-range", "outside", "too-many")]
)
def test_gradients_of_views_have_the_bits_of_python_passes(name, kind):
    def gradient():
        w = rl.arange(16.0).reshape(4, 4).requires_grad_()
        x = {"computed": lambda: w * 2.0, "view": lambda: w.t()}[kind]()
        result = VIEWS[name](x)
        start = (rl.arange(float(result.numel())) + 1.0).reshape(result.shape)
        result.backward(start)
        return described(w.grad), described(start)

    both(gradient)


NATIVE_VIEWS = [
    *("unbind", "split", "chunk"),
    *("select", "slice", "several", "column", "ellipsis", "transpose", "t", "T", "mT", "permute", "view", "reshape"),
    *("flatten", "unsqueeze", "squeeze", "expand", "diagonal", "of-a-view", "detach"),
]


@native_only
@pytest.mark.parametrize("kind", ["plain", "leaf", "computed", "view"])
@pytest.mark.parametrize("name", NATIVE_VIEWS)
def test_later_views_run_no_python_below_the_method(name, kind):
    base, call = kinds(kind), VIEWS[name]
    below = {"dispatch", "record", "run_on_cpu", "learn", "relate", "make_view", "run_decomposition", "user_frame"}
    assert not below & set(later_frames(lambda: call(base), 8))


ATTRIBUTES = {
    "sum": lambda x: x.sum(1),
    "sum-kept": lambda x: x.sum(1, keepdim=True),
    "sum-several": lambda x: x.sum((0, 1)),
    "sum-last": lambda x: x.sum(-1),
    "sum-dtype": lambda x: x.sum(1, dtype=rl.float64),
    "mean": lambda x: x.mean(0),
    "amax": lambda x: x.amax(1),
    "argmax": lambda x: x.argmax(1),
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: functional.softmax(x, -1),
    "log-softmax": lambda x: functional.log_softmax(x, 0),
    "gelu": lambda x: functional.gelu(x),
    "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "leaky": lambda x: functional.leaky_relu(x, 0.25),
    "layer-norm": lambda x: functional.layer_norm(x, (4,), x[0].detach(), None, 1e-3),
    "cat": lambda x: rl.cat([x, x, x * 2]),
    "cat-dim": lambda x: rl.cat([x, x.detach()], 1),
    "stack": lambda x: rl.stack([x, x]),
    "to": lambda x: x.to(rl.float64),
    "tril": lambda x: x.tril(1),
    "roll": lambda x: x.roll(1, 0),
    "linear": lambda x: functional.linear(x, x.detach(), x[0]),
    "nine-in-a-list": lambda x: rl.cat([x[:1]] * 9),
    "long-attribute": lambda x: x[None, None, None].permute(0, 1, 2, 4, 3).sum((0, 1, 2)),
}


@pytest.mark.parametrize("kind", ["plain", "computed", "view"])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_calls_with_attributes_give_what_python_gives(name, kind):
    base = kinds(kind)

    def called():
        result = ATTRIBUTES[name](base)
        tape = tape_of(result)
        gradient = rl.autograd.grad(result.sum(), base)[0] if result.requires_grad else None
        return described(result.detach()), tape, gradient is None or described(gradient)

    both(called)


@native_only
@pytest.mark.parametrize("kind", ["plain", "leaf"])
@pytest.mark.parametrize(
    "name", ["sum", "sum-kept", "mean", "softmax", "gelu-tanh", "leaky", "cat-dim", "to", "linear"]
)
def test_later_calls_with_attributes_run_no_python_below_the_method(name, kind):
    base, call = kinds(kind), ATTRIBUTES[name]
    assert not {"dispatch", "record", "run_on_cpu", "learn"} & set(later_frames(lambda: call(base)))


MADE = {
    "zeros": lambda: rl.zeros(3),
    "ones": lambda: rl.ones(2, 3),
    "full": lambda: rl.full((3,), 2.5),
    "whole": lambda: rl.full((3,), 7),
    "zeros-dtype": lambda: rl.zeros(3, dtype=rl.int8),
    "zeros-recorded": lambda: rl.zeros(3, requires_grad=True),
    "arange": lambda: rl.arange(1, 8, 2),
    "eye": lambda: rl.eye(3),
    "too-large": lambda: rl.full((3,), 1 << 70),
    "elsewhere": lambda: rl.zeros(3, device="meta").device.type,
}


@pytest.mark.parametrize("name", MADE)
def test_tensors_are_made_as_python_makes_them(name):
    def made():
        try:
            tensor = MADE[name]()
        except rl.RushlightError as error:
            return error.code, error.message
        return (*described(tensor.detach()), tape_of(tensor)) if isinstance(tensor, rl.Tensor) else tensor

    both(made)
    with rl.device("meta"):
        assert MADE["zeros"]().device.type == "meta"
    with learning.native_calls():
        assert rl.vmap(lambda x: x + rl.ones(1))(rl.zeros(2, 1)).tolist() == [[1.0], [1.0]]


@native_only
@pytest.mark.parametrize("name", ["zeros", "ones", "full"])
def test_later_tensors_are_made_natively(name):
    assert not {"dispatch", "run_on_cpu"} & set(later_frames(MADE[name]))


ALIKE = [
    *(0, 1, True, False, 1.0, 0.0, -0.0, 2, -1, float("nan"), float("inf"), 1 << 40, (1 << 63) - 1, -(1 << 63)),
    *((), (1,), (1, 1), ((1,),), ((1, 1),), (True,), (1.0,), None, (None,), "1", ("1",), (rl.int64,), (0, (1,))),
]


def test_attributes_that_only_look_alike_have_keys_of_their_own():
    keys = [describe.words_of_attributes({"value": value}) for value in ALIKE]
    assert len({tuple(key) for key in keys}) == len(ALIKE)
    assert describe.words_of_attributes({"value": 1 << 63}) is describe.words_of_attributes({"value": [1]}) is None


@pytest.mark.parametrize("slopes", [(0.0, -0.0), (1, True, 1.0), (0.5, 2), (float("nan"), 1.0)])
def test_calls_tell_such_attributes_apart(slopes):
    x = rl.tensor([-3.0, 0.0, 2.0])
    for _, slope in itertools.product(range(4), slopes):
        with python_calls():
            expected = outcome(lambda slope=slope: functional.leaky_relu(x, slope))
        assert outcome(lambda slope=slope: functional.leaky_relu(x, slope)) == expected


@native_only
def test_attributes_that_differ_each_time_are_not_learned():
    x = rl.arange(2000.0)
    (calls,) = learning.loaded()
    x[0]
    before = len([word for word in calls.table.words if word])
    assert [float(x[at]) for at in range(500, 1500)] == list(range(500, 1500))
    assert len([word for word in calls.table.words if word]) - before < 20


WRITES = {
    "number": lambda t, s: t.add_(1),
    "tensor": lambda t, s: t.mul_(s),
    "itself": lambda t, s: t.mul_(t),
    "operator": lambda t, s: t.__iadd__(s),
    "attribute": lambda t, s: t.add_(s, alpha=0.5),
    "clamp": lambda t, s: t.clamp_(1, 5),
    "zero": lambda t, s: t.zero_(),
    "fill": lambda t, s: t.fill_(3),
    "copy": lambda t, s: t.copy_(s),
    "copy-dtype": lambda t, s: t.copy_(s.int()),
    "copy-broadcast": lambda t, s: t.copy_(s[0]),
    "lerp": lambda t, s: t.lerp_(s, 0.5),
    "addcmul": lambda t, s: t.addcmul_(s, s, value=2.0),
    "masked": lambda t, s: t.masked_fill_(s > 3, 0.0),
    "setitem": lambda t, s: t.__setitem__(0, 1.0),
    "setitem-slice": lambda t, s: t.__setitem__(slice(1, 3), s[1:3]),
    "overlap": lambda t, s: t[1:].add_(t[:-1]),
    "overlap-apart": lambda t, s: t[1:2].add_(t[:1]),
    "transposed-itself": lambda t, s: t.add_(t.t()),
    "of-data": lambda t, s: t.data.add_(1),
    "too-large": lambda t, s: t.add_(1 << 70),
    "wrong-shape": lambda t, s: t.add_(rl.ones(3)),
    "relu": lambda t, s: t.relu_(),
    "expanded": lambda t, s: t[0].expand(2, 4).add_(1),
}
TARGETS = {
    "fresh": lambda: rl.arange(16.0).reshape(4, 4),
    "transposed": lambda: rl.arange(16.0).reshape(4, 4).t(),
    "part": lambda: rl.arange(32.0).reshape(8, 4)[2:6],
    "stepped": lambda: rl.arange(32.0).reshape(8, 4)[::2],
    "of-numpy": lambda: rl.from_numpy(np.arange(16.0, dtype=np.float32).reshape(4, 4)),
    "integers": lambda: rl.arange(16).reshape(4, 4),
    "float64": lambda: rl.arange(16.0, dtype=rl.float64).reshape(4, 4),
    "leaf": lambda: rl.ones(4, 4, requires_grad=True),
    "computed": lambda: LEAF * 1.0,
}
LEAF = rl.arange(16.0).reshape(4, 4).requires_grad_()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", WRITES)
def test_writes_do_what_python_does(name, target):
    source = rl.arange(16.0).reshape(4, 4) * 0.5 - 2.0

    def written():
        t = TARGETS[target]()
        whole = t if t.view_of is None else t.view_of.base
        try:
            result = WRITES[name](t, source)
        except rl.RushlightError as error:
            result = error.code, error.message
        else:
            result = result is t
        return result, described(t.detach()), described(whole.detach()), source._version, tape_of(t)

    for scope in (rl.enable_grad, rl.no_grad):
        with scope():
            both(written)


@native_only
@pytest.mark.parametrize("name", ["number", "tensor", "itself", "operator", "attribute", "clamp", "copy", "fill"])
def test_later_writes_run_no_python_below_the_method(name):
    t, s = rl.arange(16.0).reshape(4, 4), rl.ones(4, 4)
    names = set(later_frames(lambda: WRITES[name](t, s)))
    assert not {"dispatch", "record", "run_on_cpu", "run_mutation"} & names


def test_a_write_is_not_learned_from_another_tensor_on_the_same_memory():
    """One launch writes through the parameter that reads the target, wherever that lies at the next call."""
    for write in (lambda t, s: t.copy_(s), lambda t, s: t.mul_(s), lambda t, s: t.lerp_(s, 0.5)):
        target, source = rl.arange(5.0), rl.ones(5)
        for _ in range(3):
            write(target, target.detach())
        before = target.tolist()
        with python_calls():
            expected = write(target.clone(), source).tolist()
        for _ in range(3):
            target = rl.tensor(before)
            assert write(target, source).tolist() == expected
            assert source.tolist() == [1.0] * 5


def test_two_tensors_on_one_foreign_memory_overlap():
    memory = np.arange(8.0, dtype=np.float32)

    def added():
        memory[:] = np.arange(8.0)
        one, two = rl.from_numpy(memory[1:]), rl.from_numpy(memory[:-1])
        one.add_(two)
        return memory.tolist()

    both(added)


@pytest.mark.parametrize("name", ["tensor", "attribute", "copy", "lerp", "addcmul"])
def test_a_write_of_the_target_by_another_name_is_no_example_for_others(name):
    found = []
    for way in (python_calls, learning.native_calls):
        with way():
            t, s = rl.arange(4.0) + 7.0, rl.arange(4.0)
            for _ in range(4):
                WRITES[name](t, t.view_as(t))
            for _ in range(4):
                WRITES[name](t, s)
            found.append((t.tolist(), s.tolist()))
    assert found[0] == found[1] and found[0][1] == [0.0, 1.0, 2.0, 3.0]


def test_modes_see_views_and_writes_that_were_learned():
    seen = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__ if hasattr(func, "__name__") else str(func))
            return func(*args, **(kwargs or {}))

    x = rl.ones(4, 4)
    for _ in range(4):
        x.t(), x[1:], x.sum(1), x.add_(1), rl.cat([x, x])
    with Log():
        x.t(), x[1:], x.sum(1), x.add_(1), rl.cat([x, x])
    assert len(seen) == 5


def test_views_of_subclasses_are_python_s():
    class Marked(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    seen = []
    x = rl.ones(4, 4)
    for _ in range(4):
        x[1:], x.t()
    marked = x.as_subclass(Marked)
    assert type(marked[1:]) is Marked and type(marked.t()) is Marked
    assert seen


def test_settings_have_records_of_their_own():
    x = rl.ones(4, 4)
    for _ in range(4):
        x.sum(1)
    with settings.override(optimise=0):
        for _ in range(4):
            assert x.sum(1).tolist() == [4.0] * 4


def test_a_view_keeps_alive_what_it_shows():
    for _ in range(6):
        view = rl.arange(8.0)[2:].view(2, 3)[1]
        assert view.tolist() == [5.0, 6.0, 7.0]
