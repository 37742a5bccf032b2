"""`torch.hub`: folders are known, nothing is downloaded."""

from __future__ import annotations

import os
import re
from urllib.parse import urlparse

from rushlight.torch.passing import refuse

__all__ = [
    "HASH_REGEX",
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
    "urlparse",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_NO_NETWORK = "nothing is downloaded here; load a file with torch.load or safetensors"
_folder: str | None = None


def _get_torch_home() -> str:
    """Return the folder in which programs keep what they download; it is not made."""
    return os.path.join(os.path.expanduser("~"), ".cache", "torch")


def get_dir() -> str:
    """Return the folder of downloaded models; it is not made."""
    return _folder or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloaded models."""
    global _folder
    _folder = os.path.expanduser(d)


def load(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.hub.load", _NO_NETWORK)


def list(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.hub.list", _NO_NETWORK)


def help(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.hub.help", _NO_NETWORK)


def load_state_dict_from_url(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.hub.load_state_dict_from_url", _NO_NETWORK)


def download_url_to_file(*args: object, **options: object) -> None:
    """Raise A006."""
    refuse("torch.hub.download_url_to_file", _NO_NETWORK)
