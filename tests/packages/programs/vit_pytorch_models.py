"""A vision transformer of vit-pytorch."""

from case import Case
from vit_pytorch import ViT

from programs.classifier import classifier


def vit_pytorch() -> Case:
    """The plain vision transformer."""
    model = ViT(image_size=16, patch_size=4, num_classes=10, dim=32, depth=2, heads=4, dim_head=8, mlp_dim=64)
    return classifier(model, 16, 10)
