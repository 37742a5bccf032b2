"""Containers: order, names, slices, errors."""

import pytest

import rushlight as rl
from rushlight import nn


def test_sequential_runs_in_order_and_can_be_changed():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    net.append(nn.Linear(3, 1)).insert(1, nn.Identity())
    assert [type(module).__name__ for module in net] == ["Linear", "Identity", "ReLU", "Linear"]
    assert net(rl.ones(5, 2)).shape == (5, 1)
    assert len(net[1:3]) == 2 and net[-1] is net[3]
    del net[1]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    net[0] = nn.Identity()
    assert net.pop(0).__class__ is nn.Identity and len(net) == 2
    assert len(net + nn.Sequential(nn.ReLU())) == 3
    with pytest.raises(IndexError, match="index 2 is out of range"):
        net[2]


def test_module_list_registers_and_renumbers():
    layers = nn.ModuleList(nn.Linear(1, size) for size in (1, 2, 3))
    layers.insert(0, nn.ReLU())
    del layers[1]
    layers += [nn.Tanh()]
    assert [type(layer).__name__ for layer in layers] == ["ReLU", "Linear", "Linear", "Tanh"]
    assert [name for name, _ in layers.named_parameters()] == ["1.weight", "1.bias", "2.weight", "2.bias"]
    assert isinstance(layers[1:], nn.ModuleList) and len(layers[1:]) == 3
    assert layers.pop(-1).__class__ is nn.Tanh
    with pytest.raises(IndexError):
        layers[7]
    with pytest.raises(TypeError, match="is a int, not a Module"):
        layers.append(3)
    with pytest.raises(TypeError, match="not one ReLU"):
        layers.extend(nn.ReLU())


def test_module_dict_is_a_dict_of_modules():
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Linear(1, 1)
    table.update([("c", nn.Tanh())])
    assert list(table) == ["a", "b", "c"] and "b" in table and len(table) == 3
    assert [name for name, _ in table.named_parameters()] == ["b.weight", "b.bias"]
    assert table.pop("a").__class__ is nn.ReLU
    with pytest.raises(KeyError, match="no module a"):
        table["a"]


def test_parameter_containers_register_tensors():
    params = nn.ParameterList([rl.zeros(2), nn.Parameter(rl.ones(1))])
    params.append(rl.zeros(3))
    assert [tuple(param.shape) for param in params.parameters()] == [(2,), (1,), (3,)]
    assert isinstance(params[0], nn.Parameter) and len(params[:2]) == 2
    named = nn.ParameterDict({"left": rl.zeros(2)})
    named["right"] = rl.ones(1)
    assert list(named.state_dict()) == ["left", "right"] and named["right"].requires_grad
    assert "size 2" in repr(params)


def test_dicts_of_parameters_keep_other_values_and_answer_as_dicts():
    given = nn.ParameterDict({"b": rl.ones(1)})
    given["a"], given["n"] = nn.Parameter(rl.ones(1)), 3
    assert list(given) == ["b", "a", "n"] and len(given) == 3 and "n" in given and given["n"] == 3
    assert [type(value) for value in given.values()] == [nn.Parameter, nn.Parameter, int]
    assert list(given.state_dict()) == ["b", "a"] and "Object of type: int" in repr(given)
    assert given.get("z") is None and given.pop("n") == 3 and list(reversed(given)) == ["a", "b"]
    assert given.popitem()[0] == "a" and given.setdefault("q", 4) == 4 and list(given.copy()) == ["b", "q"]
    assert list(given | nn.ParameterDict({"w": rl.ones(1)})) == ["b", "q", "w"]
    assert list(given.fromkeys(["x", "y"], rl.ones(1))) == ["x", "y"]
    given.clear()
    assert not len(given) and not list(given.parameters())
    for wrong in (lambda: given["b"], lambda: given.pop("b"), given.popitem):
        with pytest.raises(KeyError):
            wrong()


def test_submodules_are_replaced_by_name():
    model = nn.Sequential(nn.Sequential(nn.Linear(1, 1)))
    model.set_submodule("0.0", nn.ReLU())
    model.set_submodule("more", nn.Tanh())
    assert type(model[0][0]) is nn.ReLU and type(model.more) is nn.Tanh
    for wrong, expected in (
        (("", nn.ReLU()), ValueError),
        (("0.0", 3), TypeError),
        (("z.0", nn.ReLU()), AttributeError),
    ):
        with pytest.raises(expected):
            model.set_submodule(*wrong)
