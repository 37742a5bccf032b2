"""Tables whose rows are looked up by integers."""

from __future__ import annotations

from typing import Any, Self

from rushlight.eager.creation import empty
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import functional, init
from rushlight.nn.modules.module import Module
from rushlight.support.errors import require

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """Rows of a table by integer; the row `padding_idx` starts as zeros and gets no gradient.

    `max_norm`, `norm_type`, `scale_grad_by_freq` and `sparse` are those of `nn.functional.embedding`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        padding_idx = _row(padding_idx, num_embeddings, "Embedding")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self.weight = _table(self, _weight, not _freeze, device, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values from the standard normal distribution."""
        _draw(self.weight, self.padding_idx)

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows."""
        return functional.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Return the sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        sparse = ", sparse=True" if self.sparse else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{_gradient_options(self)}{sparse}"

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Self:
        """Return an embedding of a given table."""
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, _weight=embeddings, _freeze=freeze, **options)


class EmbeddingBag(Module):
    """Rows of a table by integer, combined in bags by sum, mean or max.

    The input has a row of integers for each bag, or 1 dim and `offsets` where the bags begin in it. The row
    `padding_idx` is left out. Other options are those of `nn.functional.embedding_bag`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = _row(padding_idx, num_embeddings, "EmbeddingBag")
        self.weight = _table(self, _weight, True, device, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values from the standard normal distribution."""
        _draw(self.weight, self.padding_idx)

    def forward(self, input: Tensor, offsets: object = None, per_sample_weights: object = None) -> Tensor:
        """Return a row for each bag, (bags, embedding_dim)."""
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes and the mode."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        options = _gradient_options(self)
        return f"{self.num_embeddings}, {self.embedding_dim}{options}, mode={self.mode!r}{padding}"

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **options: Any) -> Self:
        """Return bags of a given table's rows."""
        rows, columns = embeddings.shape
        module = cls(rows, columns, _weight=embeddings, **options)
        module.weight.requires_grad = not freeze
        return module


def _gradient_options(module: Embedding | EmbeddingBag) -> str:
    """Return the options of a table that are not the default, as a part of its text."""
    norm = "" if module.max_norm is None else f", max_norm={module.max_norm}"
    order = "" if module.norm_type == 2 else f", norm_type={module.norm_type}"
    scaled = ", scale_grad_by_freq=True" if module.scale_grad_by_freq else ""
    return f"{norm}{order}{scaled}"


def _row(padding_idx: int | None, rows: int, name: str) -> int | None:
    if padding_idx is None:
        return None
    fits = -rows <= padding_idx < rows
    require(fits, "A002", f"{name}: padding_idx must be within num_embeddings", padding_idx=padding_idx)
    return padding_idx % rows


def _table(
    module: Embedding | EmbeddingBag, given: Tensor | None, learns: bool, device: object, dtype: object
) -> Parameter:
    """Return a module's table: the given one, or one without values."""
    shape = (module.num_embeddings, module.embedding_dim)
    if given is None:
        return Parameter(empty(shape, device=device, dtype=dtype), requires_grad=learns)
    name = type(module).__name__
    fits = tuple(given.shape) == shape
    require(fits, "S014", f"{name}: the shape of weight does not match num_embeddings and embedding_dim")
    return Parameter(given, requires_grad=learns)


def _draw(weight: Tensor, padding_idx: int | None) -> None:
    init.normal_(weight)
    if padding_idx is not None:
        init.zeros_(weight.detach()[padding_idx])
