"""Collections of embedding tables, and what prepares features for them."""

from rushlight.recsys.modules.embedding import EmbeddingCollection
from rushlight.recsys.modules.embedding_bag import EmbeddingBagCollection
from rushlight.recsys.modules.fused import FusedEmbeddingBagCollection
from rushlight.recsys.modules.fused_rows import FusedEmbeddingCollection

__all__ = [
    "EmbeddingBagCollection",
    "EmbeddingCollection",
    "FusedEmbeddingBagCollection",
    "FusedEmbeddingCollection",
]
