"""One table for inference: rows of floats, or of codes with a scale and a bias each."""

from __future__ import annotations

import rushlight as rl
from rushlight import Tensor
from rushlight.eager.composite.segments import lengths_of
from rushlight.ir.dtype import DType
from rushlight.nn import Module
from rushlight.ops.ragged import quantized_segment_sum, segment_sum
from rushlight.recsys.configs import BaseEmbeddingConfig, PoolingType
from rushlight.recsys.quant.rows import QuantizedRows, TableRows
from rushlight.support.errors import require
from rushlight.support.frozen import frozen


@frozen
class RowLayout:
    """How a row lies in memory: numbers of a dtype, or codes of so many bits with a scale and a bias."""

    dtype: DType
    bits: int | None

    def pooled(
        self, rows: TableRows, ids: Tensor, ends: Tensor, weights: Tensor | None, pooling: PoolingType
    ) -> Tensor:
        """Return the sum, or the mean, of the rows of each segment of ids, as float32."""
        if self.bits is None:
            total = segment_sum(rows["weight"], ends, ids, weights).float()
        else:
            parts = rows["weight_qscale"], rows["weight"], rows["weight_qbias"]
            total = quantized_segment_sum(*parts, ends, ids, weights, self.bits)
        if pooling is PoolingType.MEAN:
            total = total / lengths_of(ends).clamp(min=1).float().unsqueeze(1)
        return total

    def dense(self, rows: TableRows) -> Tensor:
        """Return rows as float32."""
        if self.bits is None:
            return rows["weight"].float()
        return QuantizedRows(rows["weight"], rows["weight_qscale"], rows["weight_qbias"], self.bits).dense()

    def packed(self, rows: TableRows) -> Tensor:
        """Return each row as bytes: its numbers or codes, then scale and bias of codes."""
        numbers = rows["weight"].contiguous().view(rl.uint8)
        if self.bits is None:
            return numbers
        return rl.cat([numbers, rl.stack([rows["weight_qscale"], rows["weight_qbias"]], 1).view(rl.uint8)], 1)

    def unpacked(self, rows: Tensor) -> TableRows:
        """Return the rows that `packed` gave."""
        # A part of one row counts as contiguous, but need not lie where wider numbers may.
        if self.bits is None:
            return {"weight": rows.clone().view(self.dtype)}
        figures = rows[:, -8:].clone().view(rl.float32)
        return {"weight": rows[:, :-8], "weight_qscale": figures[:, 0], "weight_qbias": figures[:, 1]}


class QuantTable(Module):
    """The rows of a table as buffers. Ids are rows that exist: collections see to that.

    E001 where the rows are not those of the table.
    """

    weight: Tensor
    weight_qscale: Tensor
    weight_qbias: Tensor

    def __init__(self, table: BaseEmbeddingConfig, rows: TableRows) -> None:
        super().__init__()
        coded = "weight_qscale" in rows
        wanted = {"weight", "weight_qscale", "weight_qbias"} if coded else {"weight"}
        fits = set(rows) == wanted and all(part.shape[0] == table.num_embeddings for part in rows.values())
        width = int(rows["weight"].shape[1]) if fits else 0
        bits = width * 8 // table.embedding_dim if coded else None
        fits = fits and bits in (None, 4, 8) and width * 8 // (bits or 8) == table.embedding_dim
        require(fits, "E001", f"table {table.name!r} has other rows", table=table.shape, rows=sorted(rows))
        self.layout = RowLayout(rows["weight"].dtype, bits)
        for name, part in rows.items():
            self.register_buffer(name, part)

    def parts(self) -> dict[str, Tensor]:
        """Return what it is in memory."""
        return dict(self.named_buffers())

    def rows(self, ids: Tensor) -> Tensor:
        """Return the rows of ids as float32."""
        return self.layout.dense({name: part.index_select(0, ids) for name, part in self.parts().items()})

    def pooled(self, ids: Tensor, ends: Tensor, weights: Tensor | None, pooling: PoolingType) -> Tensor:
        """Return the sum, or the mean, of the rows of each segment of ids, as float32."""
        return self.layout.pooled(self.parts(), ids, ends, weights, pooling)
