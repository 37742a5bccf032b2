"""Layers, losses and gradient clipping agree with PyTorch: with frozen values always, live where torch is installed."""

import copy
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from tests.nn import layer_cases, module_texts

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils import rnn

HERE = Path(__file__).parent
PACKED = rnn.pack_sequence([rl.ones(2), rl.ones(1)])
FROZEN = np.load(HERE / "torch_layers.npz")
TABLE = json.loads((HERE / "torch_modules.json").read_text(encoding="utf-8"))


def compare(name, found, expected):
    assert set(found) == set(expected)
    for key, array in found.items():
        assert array.dtype == expected[key].dtype
        # Gradients are sums of up to a few hundred products: single precision leaves about six digits of the largest.
        scale = max(1.0, float(np.abs(expected[key]).max(initial=0.0)))
        np.testing.assert_allclose(array, expected[key], rtol=2e-5, atol=3e-6 * scale, err_msg=f"{name}/{key}")


@pytest.mark.parametrize("name", layer_cases.CASES)
def test_layer_agrees_with_frozen_torch_values(name):
    expected = {key.removeprefix(f"{name}/"): FROZEN[key] for key in FROZEN.files if key.startswith(f"{name}/")}
    assert expected
    compare(name, layer_cases.run(rl, name), expected)


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("name", layer_cases.CASES)
def test_layer_agrees_with_live_torch(name):
    import torch

    compare(name, layer_cases.run(rl, name), layer_cases.run(torch, name))


@pytest.mark.parametrize("text", module_texts.MODULES)
def test_module_prints_and_names_its_state_like_torch(text):
    module = eval(text, {"nn": nn})
    assert repr(module) == TABLE["repr"][text]
    assert list(module.state_dict()) == TABLE["state_dict"][text]


def test_lazy_modules_take_shapes_from_inputs_and_from_states():
    layer = copy.deepcopy(nn.LazyLinear(3, dtype=rl.float64)).to(rl.bfloat16)
    assert layer.has_uninitialized_params() and repr(layer.weight) == "<UninitializedParameter>"
    assert type(layer(rl.ones(4, 2, dtype=rl.bfloat16))) is rl.Tensor
    assert type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and layer.weight.requires_grad
    assert layer.weight.dtype is rl.bfloat16 and not layer._forward_pre_hooks
    loaded = nn.LazyBatchNorm1d()
    assert isinstance(loaded.running_mean, nn.UninitializedBuffer)
    state = nn.BatchNorm1d(2).state_dict() | {"weight": rl.tensor([2.0, 3.0])}
    loaded.load_state_dict(state)
    assert loaded.weight.tolist() == [2.0, 3.0] and type(loaded) is nn.LazyBatchNorm1d
    loaded(rl.ones(3, 2))
    assert type(loaded) is nn.BatchNorm1d and loaded.weight.tolist() == [2.0, 3.0]
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        nn.Linear(2, 3).load_state_dict(nn.LazyLinear(3).state_dict())


def test_states_without_counts_of_batches_load():
    norm = nn.BatchNorm1d(2)
    old = {name: value for name, value in norm.state_dict().items() if name != "num_batches_tracked"}
    norm.num_batches_tracked.fill_(3)
    norm.load_state_dict(old)
    assert norm.num_batches_tracked.item() == 3


def test_comparison_can_fail():
    expected = dict(layer_cases.run(rl, "linear"))
    expected["output"] = expected["output"] + 1e-3
    with pytest.raises(AssertionError, match="linear/output"):
        compare("linear", layer_cases.run(rl, "linear"), expected)


def test_dropout_keeps_the_mean_and_rests_in_evaluation():
    rl.manual_seed(0)
    drop = nn.Dropout(0.25)
    x = rl.ones(4000, requires_grad=True)
    y = drop(x)
    kept = y.detach().numpy() != 0
    assert abs(kept.mean() - 0.75) < 0.04
    np.testing.assert_allclose(y.detach().numpy()[kept], 1 / 0.75, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert drop.eval()(x) is x


@pytest.mark.parametrize("activation", [nn.ReLU, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Hardtanh])
def test_inplace_activation_overwrites_its_input(activation):
    x = rl.tensor([-2.0, -0.5, 0.5, 2.0])
    expected = activation()(x)
    y = activation(inplace=True)(x)
    assert y.data_ptr() == x.data_ptr()
    np.testing.assert_array_equal(x.numpy(), expected.numpy())


def test_batch_norm_counts_batches_and_needs_more_than_one_value():
    norm = nn.BatchNorm1d(2)
    norm(rl.ones(3, 2))
    norm(rl.ones(3, 2))
    assert norm.num_batches_tracked.item() == 2
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        norm(rl.ones(1, 2))
    with pytest.raises(ValueError, match="expected 2D or 3D input"):
        norm(rl.ones(3, 2, 1, 1))


def test_dropout_between_recurrent_layers_rests_in_evaluation():
    rl.manual_seed(0)
    layers = nn.GRU(3, 4, num_layers=2, dropout=1.0)
    x = rl.ones(5, 2, 3)
    dropped, _ = layers(x)
    assert not np.array_equal(dropped.detach().numpy(), layers.eval()(x)[0].detach().numpy())
    np.testing.assert_array_equal(dropped.detach().numpy(), layers.train()(-x)[0].detach().numpy())


def test_embedding_from_pretrained_is_frozen():
    table = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    embedding = nn.Embedding.from_pretrained(table)
    assert not embedding.weight.requires_grad
    np.testing.assert_array_equal(embedding(rl.tensor([1])).numpy(), [[3.0, 4.0]])
    bags = nn.EmbeddingBag.from_pretrained(table, mode="sum")
    assert not bags.weight.requires_grad
    np.testing.assert_array_equal(bags(rl.tensor([[0, 1]])).numpy(), [[4.0, 6.0]])


def test_packing_compiles_to_one_graph_for_all_lengths():
    layer = nn.LSTM(3, 4, bidirectional=True)
    rl.compiler.reset()

    def padded(x, lengths):
        outputs, _ = layer(rnn.pack_padded_sequence(x, lengths, enforce_sorted=False))
        return rnn.pad_packed_sequence(outputs)

    compiled = rl.compile(padded)
    for size, lengths in ((5, [2, 5, 3]), (7, [6, 1, 7])):
        x = rl.randn(size, 3, 3, requires_grad=True)
        expected, found = padded(x, rl.tensor(lengths)), compiled(x, rl.tensor(lengths))
        assert bool((expected[0] == found[0]).all()) and found[1].tolist() == lengths
        gradients = [rl.autograd.grad(one[0].sum(), x)[0] for one in (expected, found)]
        assert bool((gradients[0] == gradients[1]).all())
    assert rl.compiler.graph_count() == 1
    with pytest.raises(RuntimeError, match="greater than 0"):
        compiled(x, rl.tensor([0, 2, 7]))


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(2, 4, 3, padding="all"), ValueError, "Invalid padding string"),
        (lambda: nn.Conv2d(2, 4, 3, stride=2, padding="same"), ValueError, "strided"),
        (lambda: nn.GroupNorm(2, 5), ValueError, "must be divisible"),
        (lambda: nn.Dropout(1.5), ValueError, "dropout probability"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), ValueError, "padding_idx must be within"),
        (lambda: nn.functional.embedding(rl.tensor(0), rl.tensor(1.0), 0), RuntimeError, "weight must have 2 dims"),
        (lambda: nn.EmbeddingBag(3, 2, padding_idx=-4), ValueError, "padding_idx must be within"),
        (lambda: nn.MultiheadAttention(6, 4), ValueError, "must be divisible"),
        (
            lambda: nn.Embedding(3, 2, sparse=True, scale_grad_by_freq=True)(rl.tensor([1])),
            NotImplementedError,
            "goes with dense gradients",
        ),
        (lambda: nn.LayerNorms(3), AttributeError, "did you mean LayerNorm?"),
        (lambda: nn.LSTM(3, 4, proj_size=4), ValueError, "proj_size has to be smaller"),
        (lambda: nn.GRU(3, 0), ValueError, "hidden_size must be greater than zero"),
        (lambda: nn.RNN(3, 4, dropout=2.0), ValueError, "dropout should be a number"),
        (lambda: nn.RNNCell(3, 4, nonlinearity="sin"), ValueError, "Unknown nonlinearity 'sin'"),
        (lambda: nn.GRU(3, 4)(rl.zeros(3)), ValueError, "Expected input to be 2D or 3D"),
        (lambda: nn.GRU(3, 4)(rl.zeros(5, 2, 3), rl.zeros(1, 1, 4)), RuntimeError, "Expected hidden size (1, 2, 4)"),
        (lambda: nn.GRU(3, 4)(rl.zeros(0, 2, 3)), RuntimeError, "Expected sequence length to be larger than 0"),
        (lambda: nn.GRUCell(3, 4)(rl.zeros(2, 3), rl.zeros(1, 4)), RuntimeError, "Expected hidden size (2, 4)"),
        (lambda: rnn.pack_padded_sequence(rl.zeros(3, 2), [1, 2]), RuntimeError, "sorted in decreasing order"),
        (lambda: rnn.pack_padded_sequence(rl.zeros(3, 2), [4, 2]), RuntimeError, "more than that of the input, 3"),
        (lambda: rnn.pack_padded_sequence(rl.zeros(3, 2), [2, 0]), RuntimeError, "has to be greater than 0"),
        (lambda: rnn.pack_padded_sequence(rl.zeros(3, 2), [2]), RuntimeError, "equal to batch_size"),
        (lambda: rnn.pad_packed_sequence(PACKED, total_length=1), ValueError, "at least the length of the longest"),
        (lambda: rnn.pad_sequence([]), RuntimeError, "received an empty list of sequences"),
        (lambda: nn.InstanceNorm1d(3, affine=True)(rl.ones(2, 4, 5)), ValueError, "to match num_features (3)"),
        (lambda: nn.InstanceNorm1d(3)(rl.ones(2, 3, 1)), ValueError, "more than 1 spatial element"),
        (lambda: nn.SyncBatchNorm(3)(rl.ones(3)), ValueError, "expected at least 2D input"),
        (lambda: nn.CrossMapLRN2d(3)(rl.ones(3)), ValueError, "Expected input to be 4D"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [5, 2]), ValueError, "unique, positive integers"),
        (lambda: nn.LazyLinear(3).weight.shape, RuntimeError, "Can't access the shape"),
        (lambda: nn.LazyLinear(3).weight + 1, ValueError, "uninitialized parameter in add"),
        (lambda: nn.init.ones_(nn.LazyLinear(3).weight), ValueError, "uninitialized parameter in fill_"),
        (lambda: nn.LazyLinear(3).weight.numel(), ValueError, "uninitialized parameter in numel"),
        (lambda: nn.LazyConv2d(3, 3)(rl.ones(2, 3)), RuntimeError, "Expected 3D (unbatched) or 4D (batched) input"),
        (lambda: nn.quantized, AttributeError, "nn has no quantized yet, which torch.nn has"),
        (lambda: nn.functional.cross_entropie(), AttributeError, "did you mean cross_entropy?"),
        (lambda: nn.init.diracs_(rl.zeros(3, 3)), AttributeError, "did you mean dirac_?"),
    ],
)
def test_mistakes_are_registered_errors(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert isinstance(caught.value, rl.RushlightError)
    assert text in str(caught.value)


def test_hardtanh_takes_the_old_names_of_its_bounds():
    with pytest.warns(UserWarning, match="min_value and max_value are deprecated"):
        layer = nn.Hardtanh(min_value=-2.0, max_value=3.0)
    assert (layer.min_val, layer.max_val) == (-2.0, 3.0) and layer(rl.tensor([-5.0, 5.0])).tolist() == [-2.0, 3.0]


def test_what_has_no_shape_yet_stays_so_where_a_state_has_none_either():
    first, second = nn.LazyLinear(2), nn.LazyLinear(2)
    second.load_state_dict(first.state_dict())
    assert second.has_uninitialized_params() and second(rl.ones(1, 3)).shape == (1, 2)
    with pytest.raises(RuntimeError, match="uninitialized"):
        nn.Linear(3, 2).load_state_dict(first.state_dict())
    parameter = nn.UninitializedParameter(dtype=rl.float16)
    parameter.materialize(10)
    assert parameter.shape == (10,) and parameter.dtype is rl.float16


@pytest.mark.parametrize("way", [lambda f: f, rl.compile])
def test_empty_batches_leave_running_statistics_alone(way):
    norm = nn.BatchNorm2d(3)
    call = way(lambda x: norm(x))
    for batch in (2, 5, 0, 4):
        before = norm.running_mean.clone(), norm.running_var.clone()
        call(rl.randn(batch, 3, 2, 2)).sum().backward()
        same = rl.equal(norm.running_mean, before[0]) and rl.equal(norm.running_var, before[1])
        assert same == (batch == 0) and rl.isfinite(norm.weight.grad).all()


@pytest.mark.parametrize("way", [lambda f: f, rl.compile])
def test_nothing_is_repeated_of_a_dim_without_elements(way):
    call = way(lambda x, pad: nn.functional.pad(x, pad, mode="replicate"))
    assert call(rl.ones(0, 1, 3), (1, 1)).shape == (0, 1, 5)
    with pytest.raises(RuntimeError, match="longer than"):
        call(rl.ones(2, 1, 0), (1, 1))
