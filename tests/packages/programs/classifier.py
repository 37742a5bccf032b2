"""A classifier of images as a case."""

import torch
import torch.nn.functional as F
from case import Case, draw_weights, drawn, drawn_ints


def classifier(model: torch.nn.Module, size: int, classes: int, batch: int = 2) -> Case:
    """The logits of a few images, and cross entropy as loss."""
    draw_weights(model)
    images, labels = drawn(batch, 3, size, size), drawn_ints(classes, batch)
    return Case(
        model,
        lambda: {"logits": model(images)},
        lambda: F.cross_entropy(model(images), labels),
        compiled=lambda compile: compile(model)(images),
    )
