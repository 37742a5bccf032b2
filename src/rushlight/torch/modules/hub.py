"""`torch.hub`: nothing is downloaded."""

from __future__ import annotations

from rushlight.torch.passing import refuse

__all__ = ["download_url_to_file", "load", "load_state_dict_from_url"]

_NO_NETWORK = "nothing is downloaded here; load a file with torch.load or safetensors"


def load(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.hub.load", _NO_NETWORK)


def load_state_dict_from_url(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.hub.load_state_dict_from_url", _NO_NETWORK)


def download_url_to_file(*args: object, **options: object) -> None:
    """Raise A006."""
    refuse("torch.hub.download_url_to_file", _NO_NETWORK)
