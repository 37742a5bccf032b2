"""Rows of codes: the numbers of a row are `code * scale + bias`, with a scale and a bias of the row."""

from __future__ import annotations

from collections.abc import Mapping

import rushlight as rl
from rushlight import Tensor
from rushlight.ir.dtype import DType, float32, uint8
from rushlight.recsys.configs import BaseEmbeddingConfig, DataType
from rushlight.support.errors import require
from rushlight.support.frozen import frozen

BITS = {DataType.INT8: 8, DataType.UINT8: 8, DataType.INT4: 4}
FLOATS = (DataType.FP32, DataType.FP16, DataType.BF16)

TableRows = Mapping[str, Tensor]
"""What a table is in memory: its `weight`, and of codes `weight_qscale` and `weight_qbias`, by TorchRec's names."""


@frozen(eq=False)
class QuantizedRows:
    """Codes as bytes, of 4 bits two in a byte with the first one low; float32 scales and biases of rows.

    A number differs from the one that it stands for by half a scale at most: (max - min) / 510 of its row for 8 bits.
    """

    codes: Tensor
    scales: Tensor
    biases: Tensor
    bits: int

    def parts(self) -> TableRows:
        """Return them as what a table is in memory."""
        return {"weight": self.codes, "weight_qscale": self.scales, "weight_qbias": self.biases}

    def dense(self) -> Tensor:
        """Return the rows as float32."""
        codes = self.codes
        if self.bits == 4:
            codes = rl.stack([codes & 15, codes >> 4], -1).flatten(1)
        return codes.float() * self.scales.unsqueeze(1) + self.biases.unsqueeze(1)


def quantize_rows(weight: Tensor, data_type: DataType) -> QuantizedRows:
    """Return the rows of a table in codes of 8 or 4 bits. E001 for other types, and for rows of odd size in 4 bits."""
    require(data_type in BITS, "E001", "rows have codes of 8 or 4 bits", data_type=data_type)
    bits = BITS[data_type]
    _require_even(int(weight.shape[1]), bits)
    rows = weight.detach().double()
    low, high = rows.amin(1), rows.amax(1)
    scales = ((high - low) / (2**bits - 1)).float()
    exact = rl.where(scales > 0, scales, 1.0).double().unsqueeze(1)
    codes = ((rows - low.unsqueeze(1)) / exact).round().clamp(0, 2**bits - 1).to(rl.uint8)
    if bits == 4:
        codes = codes[:, ::2] | codes[:, 1::2] << 4
    return QuantizedRows(codes.contiguous(), scales, low.float(), bits)


def _require_even(columns: int, bits: int) -> None:
    even = bits == 8 or columns % 2 == 0
    require(even, "E001", "two codes of 4 bits share a byte: rows have an even size", columns=columns)


def _require_float(data_type: DataType) -> None:
    require(data_type in FLOATS, "E001", "tables are served as floats, int8 or int4", data_type=data_type)


def rows_of(weight: Tensor, data_type: DataType) -> TableRows:
    """Return rows in a smaller type. E001 for types that tables are not served in."""
    if data_type in BITS:
        return quantize_rows(weight, data_type).parts()
    _require_float(data_type)
    return {"weight": weight.detach().to(data_type.dtype)}


def part_types(table: BaseEmbeddingConfig, data_type: DataType) -> dict[str, tuple[DType, tuple[int, ...]]]:
    """Return the dtype and shape of each part of a table's rows, as `rows_of` makes them."""
    rows, columns = table.shape
    if data_type not in BITS:
        _require_float(data_type)
        return {"weight": (data_type.dtype, (rows, columns))}
    bits = BITS[data_type]
    _require_even(columns, bits)
    scales = (float32, (rows,))
    return {"weight": (uint8, (rows, columns * bits // 8)), "weight_qscale": scales, "weight_qbias": scales}
