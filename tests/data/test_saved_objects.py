"""Whole modules, arrays and other objects in PyTorch's format are restored without a call."""

import functools
import io
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.data.rebuilding import rebuild_of_type, rebuild_wrapper
from rushlight.data.unpickler import Malformed
from rushlight.eager.override.foreign import disabled

RAN = []


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 1)
        self.out = nn.Linear(4, 2)
        self.tied = self.out.weight
        self.scale = np.float64(0.5)
        self.register_buffer("mean", rl.arange(4.0))

    def forward(self, x):
        return self.out(self.layers(x - self.mean)) * float(self.scale)


class Restoring(nn.Module):
    def __setstate__(self, state):
        RAN.append(state)


class Deleting(nn.Module):
    def __del__(self):
        RAN.append(self)


class Pair:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class Strange:
    def __reduce__(self):
        return "strange"


class MadeByPart:
    def __reduce__(self):
        return functools.partial(Pair, b=1), (0,)


class Broken:
    def __reduce__(self):
        raise ValueError("no state")


class Halves(rl.Tensor):
    """The sum of two tensors, one of which is named as a method of tensors."""

    def __new__(cls, values, rest):
        return rl.Tensor._make_wrapper_subclass(cls, values.shape, strides=values.stride(), dtype=values.dtype)

    def __init__(self, values, rest):
        self.values, self.rest = values, rest

    __torch_function__ = disabled

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (rl.ops.aten.detach.default, rl.ops.aten.clone.default):
            return cls(func(args[0].values), func(args[0].rest))
        whole = [one.values + one.rest if isinstance(one, cls) else one for one in args]
        return func(*whole, **(kwargs or {}))


class Counted(Halves):
    def __setstate__(self, state):
        vars(self).update(state, restored=True)


def saved(value):
    file = io.BytesIO()
    rl.save(value, file)
    return io.BytesIO(file.getvalue())


def loaded(value, **options):
    return rl.load(saved(value), **options)


def refused(code, text, ask):
    with pytest.raises(rl.CheckpointError) as caught:
        ask()
    assert caught.value.code == code and text in str(caught.value)


def test_modules_are_restored_whole():
    model, x = Block(), rl.randn(3, 2, 4)
    copy = loaded({"model": model, "again": model}, weights_only=False)
    assert type(copy["model"]) is Block and copy["again"] is copy["model"]
    assert copy["model"].tied is copy["model"].out.weight
    assert rl.equal(copy["model"](x), model(x))
    copy["model"](x).sum().backward()
    assert copy["model"].out.weight.grad is not None and model.out.weight.grad is None


def test_modules_of_listed_classes_are_restored_with_weights_only():
    file = saved(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    refused("P009", "weights_only=False", lambda: rl.load(file))
    file.seek(0)
    unknown = rl.serialization.get_unsafe_globals_in_checkpoint(file)
    assert [name.rpartition(".")[2] for name in unknown] == ["Sequential", "Linear", "ReLU"]
    file.seek(0)
    with rl.serialization.safe_globals([nn.Sequential, nn.Linear, nn.ReLU]):
        assert rl.load(file)(rl.ones(1, 2)).shape == (1, 3)


def test_plain_classes_may_be_listed():
    file = saved([slice(1, 2), 1])
    refused("P009", "builtins.slice", lambda: rl.load(file))
    file.seek(0)
    with rl.serialization.safe_globals([slice, dict]):
        assert rl.load(file) == [slice(1, 2), 1]
    with pytest.raises(rl.ArgumentValueError, match="never allowed"):
        rl.serialization.add_safe_globals([eval])


def test_nothing_of_a_class_runs():
    RAN.clear()
    for model in (Restoring(), Deleting()):
        file = saved(model)
        refused("P009", type(model).__name__, lambda file=file: rl.load(file, weights_only=False))
    model.__class__ = nn.Module  # its own `__del__` would run at the end
    assert not RAN


def test_functions_are_names_that_are_not_called():
    relu = loaded([nn.functional.relu], weights_only=False)[0]
    assert relu is nn.functional.relu
    calls = pickle.dumps(Pair(1, 2), 2)
    assert b"Pair" in calls
    refused("P009", "Pair", lambda: loaded(Pair(rl.ones(2), 1), weights_only=False))
    with rl.serialization.safe_globals([Pair]):
        copy = loaded([Pair(rl.ones(2), 1)])[0]
    assert copy.a.tolist() == [1, 1] and copy.b == 1


def test_tensors_that_hold_others_are_saved_with_them():
    shared = rl.arange(6.0).reshape(3, 2)
    parameter = nn.Parameter(Halves(shared.t(), rl.ones(2, 3)))
    file = saved({"weight": parameter, "shared": shared, "other": Counted(shared, shared)})
    refused("P009", "Halves", lambda: rl.load(file))
    file.seek(0)
    refused("P009", "Halves", lambda: rl.load(file, weights_only=False))
    file.seek(0)
    with rl.serialization.safe_globals([Halves, Counted]):
        found = rl.load(file)
    weight, other = found["weight"], found["other"]
    assert type(weight) is Halves and isinstance(weight, nn.Parameter) and weight.requires_grad
    assert weight.shape == (2, 3) and weight.stride() == (1, 2) and weight.dtype is rl.float32
    assert (weight + 1).tolist() == (shared.t() + 2).tolist()
    assert type(other) is Counted and other.restored and not other.requires_grad
    found["shared"][0, 0] = 7
    assert weight.values[0, 0].item() == 7 and other.rest[0, 0].item() == 7


def test_a_pickled_tensor_that_holds_others_answers_operators():
    again = pickle.loads(pickle.dumps(Halves(rl.ones(2), rl.ones(2))))
    assert type(again) is Halves and (again * 2).tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    ("cls", "state", "text"),
    [
        (rl.Tensor, {}, "no class that answers operators"),
        (Pair, {}, "no class that answers operators"),
        (Halves, {"tolist": nn.functional.relu}, "called in place of a method"),
        (Halves, [1], "without attributes"),
    ],
)
def test_what_is_no_tensor_that_holds_others_is_not_built(cls, state, text):
    args = (cls, rl.float32, (2,), (1,), 0, "torch.strided", "cpu", False)
    with pytest.raises(Malformed, match=text):
        rebuild_of_type(rebuild_wrapper, cls, args, state)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
@pytest.mark.parametrize("dtype", ["float64", "int8", "bool", "complex64"])
def test_arrays_are_saved(shape, dtype):
    array = np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    for given in (array, array.T):
        found = loaded({"array": given})["array"]
        assert found.dtype == array.dtype and found.shape == given.shape
        np.testing.assert_array_equal(found, given)


def test_what_has_no_name_is_refused():
    class Local(nn.Module):
        pass

    for value, text in (
        ([lambda: 0], "<lambda> at 0"),
        ({"model": Local()}, "Local at model"),
        (Strange(), "Strange at the object itself"),
        (Broken(), "no state"),
        ([MadeByPart()], "partial at 0"),
        ((one for one in ()), "generator"),
    ):
        refused("P006", text, lambda value=value: saved(value))
