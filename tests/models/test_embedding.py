"""Encoders: vectors as transformers', batches, poolings, one program for all lengths."""

import json

import numpy as np
import pytest
from tests.models.tiny_folders import ENCODERS, TEXTS

import rushlight as rl
from rushlight.models import Embedder


@pytest.mark.parametrize("name", ENCODERS)
def test_vectors_are_transformers(name, folder_of, recorded):
    embedder = Embedder(folder_of(name))
    np.testing.assert_allclose(embedder.embed_tokens(TEXTS), recorded[name]["vectors"], rtol=0, atol=2e-6)
    alone = [embedder.embed_tokens([text])[0] for text in TEXTS]
    np.testing.assert_allclose(alone, recorded[name]["vectors"], rtol=0, atol=2e-6)
    assert embedder.embed_tokens([]).shape == (0, 32)


def test_many_texts_come_back_in_order(folder_of):
    embedder = Embedder(folder_of("bert"))
    rng = np.random.default_rng(1)
    texts = [rng.integers(1, 97, length).tolist() for length in rng.integers(1, 40, 40)]
    together = embedder.embed_tokens(texts)
    for text, vector in list(zip(texts, together, strict=True))[::13]:
        np.testing.assert_allclose(embedder.embed_tokens([text])[0], vector, rtol=0, atol=2e-6)
    count = rl.compiler.graph_count()
    embedder.embed_tokens([texts[0] * 2, texts[1], texts[2]])
    assert rl.compiler.graph_count() == count


def test_pooling_and_norm_are_those_of_the_folder(folder_of):
    folder = folder_of("bert")
    (folder.path / "1_Pooling").mkdir()
    options = folder.path / "1_Pooling" / "config.json"
    (folder.path / "modules.json").write_text("[]")
    states = Embedder(folder).encoder(rl.tensor([TEXTS[2]]), rl.ones(1, 9, dtype=rl.bool))[0].detach().numpy()
    expected = {"mean_tokens": states.mean(0), "cls_token": states[0], "max_tokens": states.max(0)}
    for name, vector in expected.items():
        options.write_text(json.dumps({"word_embedding_dimension": 32, f"pooling_mode_{name}": True}))
        found = Embedder(folder).embed_tokens([TEXTS[0], TEXTS[2]])[1]
        np.testing.assert_allclose(found, vector, rtol=0, atol=2e-6)
    options.write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))
    with pytest.raises(rl.NotSupportedError):
        Embedder(folder)
