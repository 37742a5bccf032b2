"""Every test compiles from the beginning; programs are loaded as new processes would."""

import sys

import pytest
from tests.capture.stored import Programs

from rushlight.build import native
from rushlight.compiler import reset
from rushlight.support import settings


@pytest.fixture(autouse=True)
def forgotten() -> None:
    reset()


@pytest.fixture
def programs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    (tmp_path / "modules").mkdir()
    made = Programs(tmp_path / "modules")
    monkeypatch.setattr(native, "_loaded", {})  # code that another test has loaded is not in this one's cache
    with settings.override(verify=False, optimise=0, cache_dir=str(tmp_path / "cache")):
        yield made
    for name in made.texts:
        sys.modules.pop(name, None)
