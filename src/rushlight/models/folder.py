"""A folder as Hugging Face lays it out: `config.json`, weights, and a tokenizer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight import nn
from rushlight.support.errors import error, fail, require

_CONFIG = "config.json"


class ModelFolder:
    """The files of one model. P001 for what is not there, P002 for what is damaged."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        require(self.path.is_dir(), "P001", f"models: there is no folder {self.path}")
        self.config: dict[str, Any] = self.json(_CONFIG)

    def json(self, name: str) -> dict[str, Any]:
        """The object in a JSON file of the folder."""
        path = self.path / name
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except OSError as cause:
            raise error("P001", f"models: {path} cannot be read", hint="give a folder with its config.json") from cause
        except ValueError as cause:
            raise error("P002", f"models: {path} is not JSON") from cause
        require(isinstance(value, dict), "P002", f"models: {path} does not hold an object")
        return value

    def optional_json(self, name: str) -> dict[str, Any]:
        """`json`, or an empty dict where there is no such file."""
        return self.json(name) if (self.path / name).is_file() else {}

    @property
    def model_type(self) -> str:
        """The family that `config.json` names."""
        return str(self.config.get("model_type", ""))

    def value(self, name: str, default: Any = None) -> Any:
        """A value of `config.json`; P002 where it has neither the value nor we a default."""
        value = self.config.get(name)
        value = default if value is None else value
        require(value is not None, "P002", f"models: {self.path / _CONFIG} lacks {name}")
        return value

    def weights(self, *renamed: tuple[str, str]) -> dict[str, rl.Tensor]:
        """The tensors of the folder by name; each name after substitutions of regular expressions, in order."""
        weights = rl.load(self.path)
        named: dict[str, rl.Tensor] = {}
        for name, tensor in weights.items():
            if not isinstance(tensor, rl.Tensor):
                fail("P005", f"models: {name} in {self.path} is not a tensor")
            for pattern, new in renamed:
                name = re.sub(pattern, new, name)
            named[name] = tensor
        return named


def fill(module: nn.Module, weights: dict[str, rl.Tensor], unused: Sequence[str] = ()) -> None:
    """Makes weights the parameters of a module, without a copy, in their dtypes.

    P004 for a parameter without a weight or of another shape, and for a weight that is neither a parameter nor of a
    name that matches one of the regular expressions `unused`.
    """
    parameters = dict(module.named_parameters())
    missing = sorted(parameters.keys() - weights.keys())
    skipped = re.compile("|".join([f"(?:{pattern})" for pattern in unused]) or "(?!)")
    unknown = sorted([name for name in weights.keys() - parameters.keys() if not skipped.fullmatch(name)])
    require(not missing, "P004", "models: weights are missing", names=", ".join(missing[:5]))
    require(not unknown, "P004", "models: there are weights of no use", names=", ".join(unknown[:5]))
    for name, parameter in parameters.items():
        fits = weights[name].shape == parameter.shape
        require(fits, "P004", f"models: {name} has another shape", weight=weights[name].shape, model=parameter.shape)
        owner, _, own = name.rpartition(".")
        value = weights[name].detach()
        setattr(module.get_submodule(owner), own, nn.Parameter(value, requires_grad=False))
