"""Texts to vectors, as sentence-transformers' folders say: an encoder, pooling, and a norm of 1."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import rushlight as rl
from rushlight.models.encoder import Encoder, load_encoder
from rushlight.models.folder import ModelFolder
from rushlight.models.tokens import Tokenizer
from rushlight.support.errors import require

F = rl.nn.functional
BATCH = 16  # texts at a time: of like length, since shorter ones are padded


class Embedder(rl.nn.Module):
    """A folder's encoder with its pooling. It is compiled once, for all lengths and numbers of texts.

    P001 where a file is missing, A006 for a family or pooling that is not supported.
    """

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__()
        self.encoder: Encoder = load_encoder(folder)
        self.longest = _longest(folder)
        self.pooling, self.normalizes = _pooling(folder)
        self._folder = folder
        self._compiled: Callable[..., rl.Tensor] = rl.compile(self)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer, read when it is first asked for."""
        return Tokenizer(self._folder)

    def forward(self, tokens: rl.Tensor, lengths: rl.Tensor) -> rl.Tensor:
        """Padded tokens [batch, length] and how many there are of each [batch] to vectors [batch, width]."""
        mask = rl.arange(tokens.shape[1]) < lengths[:, None]
        vectors = self.encoder(tokens, mask)
        if self.pooling == "cls":
            pooled = vectors[:, 0]
        elif self.pooling == "max":
            pooled = vectors.masked_fill(~mask[:, :, None], float("-inf")).amax(1)
        else:
            pooled = (vectors * mask[:, :, None]).sum(1) / lengths[:, None]
        return F.normalize(pooled, dim=1) if self.normalizes else pooled

    def embed_tokens(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Vectors [texts, width] of the tokens of each text, without padding."""
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        result: list[NDArray[np.float32] | None] = [None] * len(rows)
        for start in range(0, len(rows), BATCH):
            chosen = order[start : start + BATCH]
            lengths = [len(rows[number]) for number in chosen]
            padded = np.zeros((len(chosen), max(lengths)), np.int64)
            for row, number in enumerate(chosen):
                padded[row, : lengths[row]] = rows[number]
            with rl.no_grad():
                vectors = self._compiled(rl.from_numpy(padded), rl.tensor(lengths)).numpy()
            for row, number in enumerate(chosen):
                result[number] = vectors[row]
        width = self.encoder.embeddings.word_embeddings.weight.shape[1]
        return (
            np.stack([vector for vector in result if vector is not None])
            if result
            else np.zeros((0, width), np.float32)
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors [texts, width]; a text is cut off where the model's context ends."""
        return self.embed_tokens(self.tokenizer.encode(texts, self.longest))


def _longest(folder: ModelFolder) -> int:
    context = folder.value("max_position_embeddings")
    context -= 0 if folder.model_type == "bert" else folder.value("pad_token_id", 1) + 1
    chosen = folder.optional_json("sentence_bert_config.json").get("max_seq_length")
    return min(context, chosen) if isinstance(chosen, int) else context


def _pooling(folder: ModelFolder) -> tuple[str, bool]:
    """Which vector stands for a text, and whether it gets a norm of 1."""
    options = folder.optional_json("1_Pooling/config.json")
    chosen = [name for name, on in options.items() if name.startswith("pooling_mode_") and on] or [
        "pooling_mode_mean_tokens"
    ]
    kinds = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}
    valid = len(chosen) == 1 and chosen[0] in kinds
    require(valid, "A006", "embed: one pooling of the mean, the first token or the largest", pooling=", ".join(chosen))
    modules = folder.path / "modules.json"
    normalizes = not modules.is_file() or ".models.Normalize" in modules.read_text("utf-8")
    return kinds[chosen[0]], normalizes
