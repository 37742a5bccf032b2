"""Programs of packages that are built on torch, under the alias, against numbers that torch gave.

They are skipped where a package is not installed; `python -m tools.packages` runs all and says what is missing first.
"""

import importlib.util
import json
from pathlib import Path

import pytest

from tools import packages

NAMES = json.loads((packages.FOLDER / "programs" / "names.json").read_text())
NOT_WHOLE: dict[str, str] = {}
REQUIRED = {
    "transformers_models": "transformers",
    "timm_models": "timm",
    "x_transformers_models": "x_transformers",
    "vit_pytorch_models": "vit_pytorch",
    "torch_geometric_models": "torch_geometric",
    "gpytorch_models": "gpytorch",
    "einops_models": "einops",
    "torchmetrics_scores": "torchmetrics",
}


@pytest.mark.packages
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_program_of_a_package_computes_what_torch_computes(name: str):
    package = REQUIRED[NAMES[name]]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    whole, text = packages.verdict(name)
    assert whole == (name not in NOT_WHOLE), text


def test_every_program_is_recorded_and_what_is_not_whole_is_in_the_limits():
    limits = (packages.ROOT / "docs" / "limits.md").read_text()
    for name in NAMES:
        numbers = json.loads(packages.record_of(name).read_text())["numbers"]
        assert any(part.startswith("output") for part in numbers)
    for name, missing in NOT_WHOLE.items():
        assert f"`{name}`" in limits and missing in limits


def test_differences_are_told():
    theirs = json.loads(packages.record_of("bert").read_text())["numbers"]
    assert not list(packages.differences(theirs, theirs))
    logits = theirs["output logits"]
    moved = {**theirs, "output logits": {**logits, "elements": [logits["elements"][0] + 1e-3, *logits["elements"][1:]]}}
    del moved["loss 0"]
    told = list(packages.differences(moved, theirs))
    assert told[0].startswith("output logits: ") and told[1] == "loss 0 is missing"


NAMING = ("bench", "torch/libraries")
"""What is compared with packages, and what defines the operators of their native libraries, by their names."""


def test_no_module_of_rushlight_names_a_package():
    source = packages.ROOT / "src" / "rushlight"
    for path in source.rglob("*.py"):
        if not path.relative_to(source).as_posix().startswith(NAMING):
            named = [name for name in (*REQUIRED.values(), "torchvision") if _imports_or_quotes(path, name)]
            assert not named, path


def _imports_or_quotes(path: Path, name: str) -> bool:
    text = path.read_text()
    return any(form in text for form in (f"import {name}", f"from {name}", f'"{name}', f"'{name}", f"{name}."))
