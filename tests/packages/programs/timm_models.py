"""Models of timm, for ten classes."""

import timm
from case import Case

from programs.classifier import classifier


def resnet18() -> Case:
    """A residual network."""
    return classifier(timm.create_model("resnet18", num_classes=10), 64, 10, 4)


def vit_tiny() -> Case:
    """A vision transformer with one layer in four."""
    model = timm.create_model("vit_tiny_patch16_224", num_classes=10, img_size=32, depth=3)
    return classifier(model, 32, 10)


def convnext_atto() -> Case:
    """A convolutional network with the blocks of transformers."""
    return classifier(timm.create_model("convnext_atto", num_classes=10), 64, 10)


def efficientnet_b0() -> Case:
    """A network of inverted residuals."""
    return classifier(timm.create_model("efficientnet_b0", num_classes=10), 64, 10, 4)


def mobilenetv3() -> Case:
    """A network of inverted residuals with hard activations."""
    return classifier(timm.create_model("mobilenetv3_small_100", num_classes=10), 64, 10, 4)
