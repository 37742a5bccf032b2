"""Decoders: greedy tokens as transformers', caches, kinds of weights, sampling, and what is refused."""

import itertools
import json

import numpy as np
import pytest
from tests.models.tiny_folders import DECODERS, PROMPT

import rushlight as rl
from rushlight.models import Generator, ModelFolder, Sampling
from rushlight.models.weights import GROUP, KINDS, kept


@pytest.mark.parametrize("name", DECODERS)
def test_greedy_tokens_are_transformers(name, folder_of, recorded):
    generator = Generator(folder_of(name))
    written = recorded[name]["tokens"]
    assert list(generator.generate(PROMPT, 40)) == written
    with rl.no_grad():
        logits = generator.model(rl.tensor([PROMPT + written]), generator.model.caches(64), 0)
    np.testing.assert_allclose(logits[:8].numpy(), recorded[name]["logits"], rtol=1e-4, atol=1e-4)


def test_what_was_seen_is_not_read_again(folder_of):
    generator = Generator(folder_of("llama"))
    step, read = generator._step, []

    def counted(tokens, caches, start):
        read.append((tokens.shape[1], start))
        return step(tokens, caches, start)

    generator._step = counted
    first = list(generator.generate(PROMPT, 4))
    longer = [*PROMPT, *first, 9, 9]
    second = list(generator.generate(longer, 4))
    assert read[0] == (len(PROMPT), 0) and read[4] == (3, len(PROMPT) + 3)
    other = list(generator.generate([PROMPT[0], 2, 2], 3))
    assert read[8] == (2, 1)
    fresh = Generator(folder_of("llama"))
    assert list(fresh.generate(longer, 4)) == second
    assert list(Generator(folder_of("llama")).generate([PROMPT[0], 2, 2], 3)) == other
    assert list(itertools.islice(generator.generate(PROMPT, 40), 4)) == first, "an iterator may be left"


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_two_programs_write_at_all_lengths(name, folder_of):
    generator = Generator(folder_of(name))
    first = rl.compiler.graph_count()
    list(generator.generate(PROMPT, 3))
    list(generator.generate([3, 4], 2))
    for length in (1, 3, 20, 77):
        list(generator.generate([7, *PROMPT[::-1] * length][:length], 20))
    assert rl.compiler.graph_count() == first + 2, "one for a row of tokens, one for a single token"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 3])
def test_kept_weights_multiply_as_their_wide_form(kind, rows):
    rl.manual_seed(0)
    weight, bias, x = rl.randn(6, 2 * GROUP), rl.randn(6), rl.randn(1, rows, 2 * GROUP)
    layer = kept(weight, bias, kind)
    wide = layer.widened().numpy().astype(np.float64)
    expected = x.numpy().astype(np.float64) @ wide.T + bias.numpy()
    for product in (layer, rl.compile(layer)):
        np.testing.assert_allclose(product(x).numpy(), expected, rtol=1e-5, atol=1e-5)
    error = {"float32": 0, "float16": 2e-3, "bfloat16": 1e-2, "int8": 4e-3, "int4": 8e-2}[kind]
    largest = weight.abs().max().item()
    assert np.abs(wide - weight.numpy()).max() <= error * largest


def test_rows_of_zeros_stay_zeros():
    for kind in KINDS:
        layer = kept(rl.zeros(2, GROUP), None, kind)
        assert not layer.widened().any()


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
def test_narrow_weights_begin_with_the_same_tokens(kind, folder_of, recorded):
    generator = Generator(folder_of("llama"), kind)
    assert next(iter(generator.generate(PROMPT, 1))) == recorded["llama"]["tokens"][0]


def test_draws_are_of_the_likeliest():
    logits = np.log(np.array([0.1, 0.5, 0.25, 0.15], np.float32))
    generator = np.random.default_rng(0)
    drawn = [Sampling(1.0).draw(logits, generator) for _ in range(2000)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 2000, [0.1, 0.5, 0.25, 0.15], atol=0.03)
    assert {Sampling(1.0, top_k=2).draw(logits, generator) for _ in range(100)} == {1, 2}
    assert {Sampling(1.0, top_p=0.6).draw(logits, generator) for _ in range(100)} == {1, 2}
    assert {Sampling(1.0, top_p=0.0).draw(logits, generator) for _ in range(20)} == {1}
    assert Sampling().draw(logits, generator) == 1


def refused(code, call):
    with pytest.raises(rl.RushlightError) as caught:
        call()
    assert caught.value.code == code, caught.value


def test_what_does_not_fit_is_refused(folder_of, tmp_path):
    refused("P001", lambda: ModelFolder(tmp_path / "nothing"))
    (tmp_path / "config.json").write_text("{")
    refused("P002", lambda: ModelFolder(tmp_path))
    refused("A006", lambda: Generator(folder_of("llama", model_type="mamba")))
    refused("A006", lambda: Generator(folder_of("llama", hidden_act="relu")))
    refused("A006", lambda: Generator(folder_of("llama", rope_scaling={"rope_type": "yarn", "factor": 2.0})))
    refused("P004", lambda: Generator(folder_of("llama", num_hidden_layers=3)))
    refused("P004", lambda: Generator(folder_of("llama", num_hidden_layers=1)))
    refused("P004", lambda: Generator(folder_of("llama", vocab_size=98)))
    refused("A002", lambda: Generator(folder_of("llama"), "int3"))
    generator = Generator(folder_of("llama"))
    refused("S002", lambda: next(generator.generate([], 3)))
    refused("S002", lambda: next(generator.generate([1] * 128, 3)))
    refused("I002", lambda: next(generator.generate([97], 3)))
    assert len(list(generator.generate([1] * 126, 30))) <= 2, "no further than the context"
    path = folder_of("gpt2").path
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [82, 3]}))
    assert list(Generator(ModelFolder(path)).generate(PROMPT, 40)) == [82], "an end of several"
