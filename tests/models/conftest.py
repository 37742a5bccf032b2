"""The folders of the small models, written once for each test that asks."""

import json
from pathlib import Path

import pytest
from tests.models.tiny_folders import DECODERS, ENCODERS, write_folder

from rushlight.models import ModelFolder

RECORDED = json.loads(Path(__file__).with_name("transformers.json").read_text())


@pytest.fixture
def folder_of(tmp_path):
    """Writes the folder of a name and returns it."""

    def make(name, **changes):
        config = {**DECODERS, **ENCODERS}[name]
        return ModelFolder(write_folder(tmp_path / name, {**config, **changes}, RECORDED[name]["shapes"]))

    return make


@pytest.fixture
def recorded():
    """What transformers computes of each folder."""
    return RECORDED
