"""Compiled modules as parts of others: they are modules, with parameters, modes, copies and conversions."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import rushlight as rl
from rushlight import nn


class Net(nn.Module):
    """A model with parts in attributes, a list and a sequence."""

    def __init__(self, wrap) -> None:
        super().__init__()
        rl.manual_seed(0)
        self.first = wrap(nn.Linear(2, 3))
        self.middle = nn.ModuleList([wrap(nn.Linear(3, 3)) for _ in range(2)])
        self.last = nn.Sequential(nn.ReLU(), wrap(nn.Dropout(0.5)))

    def forward(self, x):
        x = self.first(x)
        for part in self.middle:
            x = part(x)
        return self.last(x)


def _nets() -> tuple[Net, Net]:
    return Net(rl.compile), Net(lambda part: part)


def test_parameters_of_compiled_parts_are_the_whole_models() -> None:
    net, plain = _nets()
    assert isinstance(net.first, nn.Linear) and isinstance(net.first, nn.Module)
    assert list(net.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in net.named_modules()] == [name for name, _ in plain.named_modules()]
    assert not net.eval().last[1].training
    assert net.double().first.weight.dtype is rl.float64
    plain.load_state_dict(net.state_dict())


@pytest.mark.parametrize("again", [lambda net: net, rl.compile, lambda net: rl.compile(net, fullgraph=True)])
def test_they_train_as_plain_ones(again) -> None:
    net, plain = [one.eval() for one in _nets()]
    call = again(net)
    for model, run in ((net, call), (plain, plain)):
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            run(rl.full((4, 2), step + 1.0)).square().sum().backward()
            optimizer.step()
    assert all(rl.equal(one, other) for one, other in zip(net.parameters(), plain.parameters(), strict=True))


def test_copies_compile_for_themselves() -> None:
    net = _nets()[0].eval()
    x = rl.ones(4, 2)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert rl.equal(other(x), net(x)) and repr(other) == repr(net)
        with rl.no_grad():
            other.first.weight.zero_()
        assert not rl.equal(other(x), net(x))


def test_their_state_is_saved_and_loaded() -> None:
    net = Net(rl.compile)
    file = io.BytesIO()
    rl.save(net.state_dict(), file)
    file.seek(0)
    other = Net(rl.compile)
    other.first.weight.data.zero_()
    other.load_state_dict(rl.load(file))
    assert rl.equal(other.first.weight, net.first.weight)
