"""Layers of einops."""

import torch
from case import Case
from einops.layers.torch import EinMix, Rearrange, Reduce

from programs.classifier import classifier


def einops_layers() -> Case:
    """Convolutions and mixing of patches, with layers that rearrange."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        Reduce("b c (h p) (w q) -> b c h w", "max", p=2, q=2),
        torch.nn.ReLU(),
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2),
        EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=32, d=16),
        torch.nn.GELU(),
        Reduce("b n d -> b d", "mean"),
        torch.nn.Linear(16, 10),
    )
    return classifier(model, 16, 10)
