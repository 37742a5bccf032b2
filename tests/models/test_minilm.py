"""MiniLM: vectors of 200 texts of any length, in one program."""

import numpy as np
import pytest
from tests.models.minilm_texts import PACKAGE, RECORDED, folder, texts

import rushlight as rl
from rushlight.models import Embedder, ModelFolder


@pytest.mark.packages
@pytest.mark.slow
def test_vectors_of_minilm_are_transformers():
    place = folder()
    if place is None:
        pytest.skip(f"{PACKAGE} is not installed")
    embedder, count = Embedder(ModelFolder(place)), rl.compiler.graph_count()
    found = embedder.embed(texts())
    np.testing.assert_allclose(found, np.load(RECORDED), rtol=0, atol=1e-5)
    assert rl.compiler.graph_count() == count + 1
