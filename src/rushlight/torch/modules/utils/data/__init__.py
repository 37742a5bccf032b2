"""`torch.utils.data` beyond `rushlight.utils.data`: names of pipes, which packages define and hardly use."""

from __future__ import annotations

from rushlight.torch.passing import Decorator
from rushlight.utils.data import Dataset, IterableDataset

__all__ = ["IterDataPipe", "MapDataPipe", "functional_datapipe"]


class IterDataPipe(IterableDataset[object]):
    """An iterable dataset: it has no functional forms."""


class MapDataPipe(Dataset[object]):
    """A dataset: it has no functional forms."""


def functional_datapipe(name: str, enable_df_api_tracing: bool = False) -> Decorator:
    """Return a decorator that leaves a class as it is: pipes have no method `name`."""
    return Decorator("torch.utils.data.functional_datapipe", f"pipes have no method {name}")
