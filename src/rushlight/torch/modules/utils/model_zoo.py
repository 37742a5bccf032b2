"""`torch.utils.model_zoo`: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from rushlight.torch.modules.hub import load_state_dict_from_url

__all__ = ["load_url", "tqdm"]

T = TypeVar("T")

load_url = load_state_dict_from_url


def tqdm(iterable: Iterable[T], *args: object, **options: object) -> Iterable[T]:
    """Return what is iterated, without a bar of progress."""
    return iterable
