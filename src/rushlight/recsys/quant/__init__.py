"""Tables of few bits: each row has codes, a scale and an offset. Files of them are mapped."""

from rushlight.recsys.quant.collection import QuantEmbeddingBagCollection, QuantEmbeddingCollection, QuantTables
from rushlight.recsys.quant.files import open_tables, save_tables, write_tables
from rushlight.recsys.quant.rows import QuantizedRows, quantize_rows

__all__ = [
    "QuantEmbeddingBagCollection",
    "QuantEmbeddingCollection",
    "QuantTables",
    "QuantizedRows",
    "open_tables",
    "quantize_rows",
    "save_tables",
    "write_tables",
]
