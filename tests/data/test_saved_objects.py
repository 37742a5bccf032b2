"""Whole modules, arrays and other objects in PyTorch's format are restored without a call."""

import io
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn

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


class Broken:
    def __reduce__(self):
        raise ValueError("no state")


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
        ((one for one in ()), "generator"),
    ):
        refused("P006", text, lambda value=value: saved(value))
