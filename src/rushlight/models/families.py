"""Which decoder a family of models has."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.models.folder import ModelFolder
from rushlight.models.gpt2 import GPT2, load_gpt2
from rushlight.models.llama import Llama, load_llama
from rushlight.models.weights import keep_linear_layers
from rushlight.support.errors import fail

FAMILIES: dict[str, Callable[[ModelFolder], Llama | GPT2]] = {
    "gpt2": load_gpt2,
    "llama": load_llama,
    "mistral": load_llama,
    "qwen2": load_llama,
}


def load_decoder(folder: ModelFolder, weights: str | None = None) -> Llama | GPT2:
    """The decoder of a folder, its linear layers of one of `weights.KINDS`, or as they are stored.

    A006 for another family, or what of its configuration is not supported.
    """
    if folder.model_type not in FAMILIES:
        hint = f"families: {', '.join(FAMILIES)}"
        fail("A006", "chat: this family of models is not supported", model_type=folder.model_type, hint=hint)
    model = FAMILIES[folder.model_type](folder)
    keep_linear_layers(model, weights)
    return model.eval()
