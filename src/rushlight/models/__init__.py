"""Models of Hugging Face's folders: encoders that embed texts, decoders that write them.

>>> embedder = Embedder(ModelFolder("all-MiniLM-L6-v2"))
>>> embedder.embed(["a sentence", "another one"]).shape
(2, 384)
"""

from rushlight.models.embedding import Embedder
from rushlight.models.folder import ModelFolder
from rushlight.models.generation import Generator, Sampling

__all__ = ["Embedder", "Generator", "ModelFolder", "Sampling"]
