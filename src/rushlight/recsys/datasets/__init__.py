"""Batches of recommenders' data, by TorchRec's names: random ones, and Criteo's click logs as arrays or text.

batches = iter(RandomRecDataset(["user", "words"], batch_size=16, hash_size=1000, ids_per_feature=2, num_dense=13))
"""

from rushlight.recsys.datasets.batches import Batch
from rushlight.recsys.datasets.criteo import (
    CAT_FEATURE_COUNT,
    DAYS,
    DEFAULT_CAT_NAMES,
    DEFAULT_COLUMN_NAMES,
    DEFAULT_INT_NAMES,
    DEFAULT_LABEL_NAME,
    INT_FEATURE_COUNT,
    TOTAL_TRAINING_SAMPLES,
    InMemoryBinaryCriteoIterDataPipe,
)
from rushlight.recsys.datasets.criteo_text import CriteoIterDataPipe, criteo_kaggle, criteo_terabyte
from rushlight.recsys.datasets.random import RandomRecDataset
from rushlight.support.peer_names import absent_name

__all__ = [
    "CAT_FEATURE_COUNT",
    "DAYS",
    "DEFAULT_CAT_NAMES",
    "DEFAULT_COLUMN_NAMES",
    "DEFAULT_INT_NAMES",
    "DEFAULT_LABEL_NAME",
    "INT_FEATURE_COUNT",
    "TOTAL_TRAINING_SAMPLES",
    "Batch",
    "CriteoIterDataPipe",
    "InMemoryBinaryCriteoIterDataPipe",
    "RandomRecDataset",
    "criteo_kaggle",
    "criteo_terabyte",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
