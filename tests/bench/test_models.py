"""Each small model: one artifact for all sizes, with the bits of eager mode, forward and in a step of training."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.bench.models import MODELS

# Two choices of each model's sizes.
SIZES = {
    "gpt": ((2, 12), (3, 17)),
    "bert": ((2, 12), (3, 17)),
    "t5": ((2, 12, 7), (3, 9, 17)),
    "resnet": ((2, 16, 12), (3, 11, 21)),
    "mixer": ((2, 40, 36), (3, 17, 50)),
    "unet": ((2, 17, 22), (1, 12, 9)),
    "dlrm": ((4, 7, 3, 0), (6, 9, 5, 11)),
    "lstm": ((2, 6), (5, 17)),
}


def least_sizes(model):
    """The least of each size."""
    return [extent.least for extent in model.sizes.values()]


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def prepared(name, training):
    rl.manual_seed(0)
    model = MODELS[name].make().train(training)
    rl.compiler.reset()
    return model, {key: value.clone() for key, value in model.state_dict().items()}


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert np.isfinite(other.detach().numpy()).all()
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


@pytest.mark.generated("training")
@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_one_artifact_has_the_bits_of_eager_mode_at_all_sizes(name: str, training: bool):
    model, state = prepared(name, training)
    compiled = rl.compile(model)
    for sizes in SIZES[name]:
        inputs = MODELS[name].inputs(*sizes)
        with rl.no_grad():
            expected = outputs(model(*inputs))
            after = {key: value.clone() for key, value in model.state_dict().items()}
            model.load_state_dict(state)
            assert_same(outputs(compiled(*inputs)), expected)
        assert_same(list(model.state_dict().values()), list(after.values()))
        model.load_state_dict(state)
    assert rl.compiler.graph_count() == 1


@pytest.mark.generated
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_training_step_has_the_bits_of_eager_mode(name: str):
    model, state = prepared(name, training=True)

    def step(*inputs):
        loss = sum([result.square().mean() for result in outputs(model(*inputs))])
        loss.backward()
        return loss.detach()

    inputs = MODELS[name].inputs(*SIZES[name][0])
    expected = [step(*inputs), *[parameter.grad.clone() for parameter in model.parameters()]]
    model.load_state_dict(state)
    model.zero_grad()
    assert_same([rl.compile(step)(*inputs), *[parameter.grad for parameter in model.parameters()]], expected)
    assert any(gradient.abs().max() > 0 for gradient in expected[1:])
    assert rl.compiler.graph_count() == 1


@pytest.mark.generated
@pytest.mark.slow
@pytest.mark.usefixtures("quick_code")  # the step above is optimised
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_of_open_sizes_serves_the_least_and_others(name: str):
    model, state = prepared(name, training=True)

    def step(*inputs):
        loss = sum([result.square().mean() for result in outputs(model(*inputs))])
        loss.backward()
        return loss.detach()

    compiled = rl.compile(step)
    for sizes in (least_sizes(MODELS[name]), *SIZES[name]):
        inputs = MODELS[name].inputs(*sizes)
        for tensor, dims in zip(inputs, MODELS[name].dims, strict=True):
            opened = [dim for dim, size in enumerate(dims) if size is not None]
            rl.compiler.mark_unbacked(tensor, opened)
        model.load_state_dict(state)
        model.zero_grad()
        expected = [step(*inputs), *[parameter.grad.clone() for parameter in model.parameters()]]
        model.load_state_dict(state)
        model.zero_grad()
        assert_same([compiled(*inputs), *[parameter.grad for parameter in model.parameters()]], expected)
    assert rl.compiler.graph_count() == 1


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_model_is_small_and_its_inputs_are_what_it_says(model):
    assert sum([parameter.numel() for parameter in model.make().parameters()]) <= 5_000_000
    for sizes in (*SIZES[model.name], least_sizes(model)):
        named = dict(zip(model.sizes, sizes, strict=True))
        assert all(extent.least <= named[name] <= (extent.most or 1 << 40) for name, extent in model.sizes.items())
        inputs = model.inputs(*sizes)
        assert len(inputs) == len(model.dims)
        for tensor, dims in zip(inputs, model.dims, strict=True):
            assert len(tensor.shape) == len(dims)
            assert all(name is None or size == named[name] for size, name in zip(tensor.shape, dims, strict=True))
    first, again, other = [model.inputs(*SIZES[model.name][0], seed=seed) for seed in (0, 0, 1)]
    assert_same(first, again)
    assert any(not np.array_equal(one.numpy(), two.numpy()) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_model_takes_the_least_sizes(model):
    rl.manual_seed(0)
    inputs = model.inputs(*[extent.least for extent in model.sizes.values()])
    for result in outputs(model.make().train()(*inputs)):
        assert np.isfinite(result.detach().numpy()).all()
