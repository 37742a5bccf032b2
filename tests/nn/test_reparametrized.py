"""Computed, pruned and fused weights agree with PyTorch's recorded numbers; compiled they equal eager code."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from tests.nn import reparametrized_cases

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils import parametrizations, parametrize, prune
from rushlight.support.errors import forget_warnings

FROZEN = np.load(Path(__file__).parent / "torch_reparametrized.npz")


@pytest.mark.generated
@pytest.mark.parametrize("name", reparametrized_cases.CASES)
def test_reparametrized_weights_agree_with_torch_and_compiled(name):
    found = reparametrized_cases.run(rl, name)
    expected = {key.removeprefix(f"{name}/"): FROZEN[key] for key in FROZEN.files if key.startswith(f"{name}/")}
    assert set(found) == set(expected) and expected
    for key, array in found.items():
        assert array.dtype == expected[key].dtype, key
        np.testing.assert_allclose(array, expected[key], rtol=3e-5, atol=1e-5, err_msg=f"{name}/{key}")
    compiled = reparametrized_cases.run(rl, name, rl.compile)
    for key, array in found.items():
        np.testing.assert_array_equal(compiled[key], array, err_msg=f"{name}/{key}")


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, x):
        return x.triu()


class Wider(nn.Module):
    def forward(self, x):
        return rl.cat([x, x])

    def right_inverse(self, x):
        return x[: x.shape[0] // 2]


def parametrized(features=3):
    return parametrize.register_parametrization(nn.Linear(features, features), "weight", Symmetric())


def test_parametrized_tensors_are_registered_read_written_and_removed():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias") and not parametrize.is_parametrized(nn.Linear(1, 1))
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert layer.parametrizations.weight.original is weight
    wanted = rl.arange(9.0).reshape(3, 3)
    layer.weight = wanted + wanted.mT
    assert rl.equal(layer.weight, wanted + wanted.mT) and rl.equal(weight, (wanted + wanted.mT).triu())
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and layer.weight is weight and rl.equal(weight, wanted + wanted.mT)
    assert list(layer.state_dict()) == ["bias", "weight"]
    parametrize.register_parametrization(layer, "weight", Symmetric())
    with rl.no_grad():
        weight[2, 0] = 7.0
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight[2, 0] == 7.0


def test_copies_of_parametrized_modules_are_parametrized_apart():
    layer = parametrized()
    other = copy.deepcopy(layer)
    parametrize.remove_parametrizations(layer, "weight")
    assert parametrize.is_parametrized(other) and rl.equal(other.weight, layer.weight)
    assert other.parametrizations.weight.original is not layer.weight
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(other)
    fresh = parametrized()
    fresh.load_state_dict(other.state_dict())
    assert rl.equal(fresh.weight, other.weight)


def test_two_tensors_of_a_module_are_parametrized():
    layer = parametrized(2)
    parametrize.register_parametrization(layer, "bias", nn.Softplus())
    assert [*layer.parametrizations] == ["weight", "bias"] and bool((layer.bias > 0).all())
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer).__name__ == "ParametrizedLinear" and not parametrize.is_parametrized(layer, "weight")
    with pytest.raises(RuntimeError, match="does not implement right_inverse"):
        layer.bias = rl.ones(2)
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")


def test_what_a_parametrization_may_not_change_is_an_error():
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.Flatten(0))
    layer = nn.Linear(2, 4)
    parametrize.register_parametrization(layer, "weight", Wider(), unsafe=True)
    assert layer.weight.shape == (4, 2) and layer.parametrizations.weight.original.shape == (2, 2)
    layer.weight = rl.ones(6, 2)
    assert layer.weight.shape == (6, 2)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(layer, "wait", Symmetric())
    with pytest.raises(ValueError, match="may not change the dtype"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", AsDouble())


class AsDouble(nn.Module):
    def forward(self, x):
        return x.double()


class Counting(nn.Module):
    calls = 0

    def forward(self, x):
        type(self).calls += 1
        return x * 2


def test_cached_regions_compute_each_tensor_once():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Counting())
    x, Counting.calls = rl.ones(1, 2), 0
    eager = layer(x) + layer.weight.sum()
    assert Counting.calls == 2
    with parametrize.cached():
        assert layer.weight is layer.weight
        with parametrize.cached():
            layer(x)
        assert Counting.calls == 3

        @rl.compile
        def function(x):
            with parametrize.cached():
                return layer(x) + layer.weight.sum()

        assert rl.equal(function(x), eager)
        weight = layer.weight
    assert layer.weight is not weight
    with rl.no_grad():
        layer.parametrizations.weight.original.mul_(2)
    assert rl.equal(function(x), layer(x) + layer.weight.sum()) and not rl.equal(function(x), eager)


def test_a_compiled_function_assigns_to_a_parametrized_tensor():
    layer = parametrized(2)

    @rl.compile
    def function(value):
        layer.weight = value
        return layer(rl.ones(1, 2))

    for value in (rl.tensor([[1.0, 2.0], [2.0, 3.0]]), rl.tensor([[5.0, 0.0], [0.0, 1.0]])):
        assert rl.equal(function(value), layer(rl.ones(1, 2))) and rl.equal(layer.weight, value)


def test_originals_move_between_modules():
    layer, other = parametrized(), nn.Linear(3, 3)
    assert parametrize.transfer_parametrizations_and_params(layer, other) is other
    assert other.parametrizations.weight.original is layer.parametrizations.weight.original
    assert rl.equal(other.weight, layer.weight)
    assert not parametrize.is_parametrized(parametrize.transfer_parametrizations_and_params(nn.Linear(2, 2), nn.ReLU()))


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 2), (2, 5), (1, 1)])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_weights_stay_orthogonal_and_take_orthogonal_values(shape, orthogonal_map):
    module = nn.ParameterList([nn.Parameter(rl.randn(*shape, dtype=rl.float64))])
    module.weight = nn.Parameter(rl.randn(*shape, dtype=rl.float64))
    parametrizations.orthogonal(module, "weight", orthogonal_map)
    optimizer = rl.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(2):
        (module.weight * rl.randn(*shape, dtype=rl.float64)).sum().backward()
        optimizer.step()
    tall = module.weight.mT if shape[-2] < shape[-1] else module.weight
    identity = rl.eye(tall.shape[-1], dtype=rl.float64)
    assert rl.allclose(tall.mT @ tall, identity.expand(*shape[:-2], -1, -1), atol=1e-10)
    given = rl.linalg.qr(rl.randn(*tall.shape, dtype=rl.float64))[0]
    given = given.mT if shape[-2] < shape[-1] else given
    module.weight = given
    assert rl.allclose(module.weight, given, atol=1e-10)


def test_weight_norm_reads_states_of_the_old_hook():
    forget_warnings()
    with pytest.warns(UserWarning, match="deprecated"):
        old = nn.utils.weight_norm(nn.Linear(3, 2))
    new = parametrizations.weight_norm(nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    assert rl.equal(new.weight, old.weight)
    with pytest.raises(RuntimeError, match="two weight_norm hooks"):
        nn.utils.weight_norm(old)
    weight = old.weight
    assert rl.equal(nn.utils.remove_weight_norm(old).weight, weight) and old.weight.is_leaf
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        nn.utils.remove_weight_norm(old)


def test_spectral_norm_is_one_after_many_steps():
    weight = rl.randn(4, 3, 2)
    layer = nn.Conv1d(3, 4, 2)
    with rl.no_grad():
        layer.weight.copy_(weight)
    parametrizations.spectral_norm(layer, n_power_iterations=60)
    assert abs(np.linalg.norm(layer.weight.detach().numpy().reshape(4, 6), 2) - 1) < 1e-5
    layer.eval()
    before = layer.parametrizations.weight[0]._u.clone()
    layer(rl.ones(1, 3, 4))
    assert rl.equal(before, layer.parametrizations.weight[0]._u)
    with pytest.raises(IndexError):
        parametrizations.spectral_norm(nn.Linear(2, 2), dim=2)
    old = nn.utils.spectral_norm(nn.Linear(3, 2)).eval()
    value = old(rl.ones(1, 3))
    assert rl.allclose(nn.utils.remove_spectral_norm(old)(rl.ones(1, 3)), value)
    assert list(old.state_dict()) == ["bias", "weight"]


class EveryOther(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def test_custom_pruning_prunes_what_is_left():
    layer = nn.Linear(4, 2)
    EveryOther.apply(layer, "weight")
    assert layer.weight_mask.tolist() == [[0, 1, 0, 1], [0, 1, 0, 1]]
    container = EveryOther.apply(layer, "weight")
    assert isinstance(container, prune.PruningContainer) and len(container) == 2 and prune.is_pruned(layer)
    assert layer.weight_mask.tolist() == [[0, 0, 0, 1], [0, 0, 0, 1]]
    other = prune.identity(nn.Linear(4, 2), "weight")
    other.load_state_dict(layer.state_dict())
    assert rl.equal(other(rl.ones(1, 4)), layer(rl.ones(1, 4)))
    zeros = layer.weight.detach().clone()
    assert not prune.is_pruned(prune.remove(layer, "weight")) and rl.equal(layer.weight, zeros)
    assert layer.weight.is_leaf and list(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="has to be pruned before"):
        prune.remove(layer, "weight")


def test_random_pruning_prunes_as_many_as_are_asked_for():
    layer = prune.random_unstructured(nn.Linear(10, 10), "weight", 0.37)
    assert int(layer.weight_mask.sum()) == 63
    prune.random_structured(layer, "weight", 3, dim=1)
    assert int((layer.weight_mask.sum(0) != 0).sum()) == 7
    for wrong, expected in ((1.5, ValueError), (-1, ValueError), (101, ValueError), ("all", TypeError)):
        with pytest.raises(expected):
            prune.l1_unstructured(nn.Linear(10, 10), "weight", wrong)
    untouched = nn.Linear(2, 2)
    with pytest.raises(ValueError):
        prune.l1_unstructured(untouched, "weight", 9)
    assert list(untouched.state_dict()) == ["weight", "bias"]


def test_skipped_initialisation_leaves_shapes_and_dtypes():
    layer = nn.utils.skip_init(nn.Linear, 2, 3, dtype=rl.float64)
    assert layer.weight.shape == (3, 2) and layer.weight.dtype is rl.float64 and layer.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="'device' arg"):
        nn.utils.skip_init(nn.ReLU)


def test_functional_call_replaces_originals_and_refuses_what_is_computed():
    layer = parametrized(2)
    original = rl.tensor([[1.0, 2.0], [9.0, 3.0]])
    result = rl.func.functional_call(layer, {"parametrizations.weight.original": original}, rl.ones(1, 2))
    assert rl.equal(result, rl.tensor([[3.0, 5.0]]) + layer.bias)
    with pytest.raises(ValueError, match="weight is computed"):
        rl.func.functional_call(layer, {"weight": original}, rl.ones(1, 2))
    forget_warnings()
    with pytest.warns(UserWarning, match="deprecated"):
        old = nn.utils.stateless.functional_call(layer, {"bias": rl.zeros(2)}, rl.ones(1, 2))
    assert rl.equal(old, layer.weight.sum(1).unsqueeze(0))


def test_weights_of_convolutions_change_their_layout():
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.Linear(2, 2))
    values = model[0].weight.detach().clone()
    nn.utils.convert_conv2d_weight_memory_format(model, rl.channels_last)
    assert model[0].weight.is_contiguous(memory_format=rl.channels_last) and rl.equal(model[0].weight, values)


class _Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.scale = rl.full((2,), 7.0)
        self.state = nn.Buffer(rl.zeros(1))

    def forward(self, x, *, more=0.0):
        self.state = self.state + 1
        return x * self.scale + more + self.state + getattr(self, "extra", 0.0)


def test_functional_call_replaces_attributes_and_adds_those_that_are_missing():
    holder = _Holder()
    x = rl.ones(2)
    scaled = rl.func.functional_call(holder, {"scale": rl.zeros(2)}, x, {"more": 2.0})
    assert scaled.tolist() == [3.0, 3.0] and holder.scale.tolist() == [7.0, 7.0]
    state = rl.full((1,), 5.0)
    given = {"state": state, "extra": nn.Parameter(rl.full((1,), 100.0))}
    assert rl.func.functional_call(holder, given, x).tolist() == [113.0, 113.0]
    assert given["state"].tolist() == [6.0] and state.tolist() == [5.0] and holder.state.tolist() == [1.0]
    assert not hasattr(holder, "extra") and "extra" not in dict(holder.named_parameters())
    rl.func.functional_call(holder, {"scale": nn.Parameter(rl.zeros(2))}, x)
    assert list(dict(holder.named_parameters())) == ["layer.weight", "layer.bias"] and holder.scale.tolist() == [
        7.0,
        7.0,
    ]


def test_functional_call_refuses_what_no_tensor_can_replace():
    holder = _Holder()
    weight = rl.ones(1, 1)
    for given, strict, expected in (
        ({"layer.weight": 3}, False, TypeError),
        ({"layer.training": weight}, False, TypeError),
        ({"absent.weight": weight}, False, AttributeError),
        ({"layer.weight": weight}, True, RuntimeError),
        ({"layer.weight": weight, "layer.bias": weight, "state": weight, "extra": weight}, True, RuntimeError),
    ):
        before = holder.layer.weight
        with pytest.raises(expected):
            rl.func.functional_call(holder, given, rl.ones(2), strict=strict)
        assert holder.layer.weight is before
    holder.again = holder.layer
    with pytest.raises(ValueError, match="two values"):
        rl.func.functional_call(holder, {"layer.weight": weight, "again.weight": rl.ones(1, 1)}, rl.ones(2))


def test_functional_call_reaches_through_modules_that_hold_each_other():
    holder = _Holder()
    vars(holder.layer)["_modules"]["owner"] = holder
    given = {"layer.owner.scale": rl.zeros(2)}
    assert rl.func.functional_call(holder, given, rl.ones(2), tie_weights=False).tolist() == [1.0, 1.0]
