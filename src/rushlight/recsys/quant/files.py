"""Files of quantised tables, which are mapped: their pages are loaded when a lookup reads them.

A file is of the safetensors format, with the tables' descriptions in its metadata. Tables may be larger than memory,
here and where they are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rushlight import Tensor
from rushlight.data.atomic_file import write_atomically
from rushlight.data.safetensors_file import SafetensorsFile, safetensors_header
from rushlight.data.source import MappedSource, opened
from rushlight.ir.dtype import DType
from rushlight.recsys.configs import BaseEmbeddingConfig, DataType
from rushlight.recsys.descriptions import read_tables, tables_text
from rushlight.recsys.quant.collection import QuantTables, quantized_collection
from rushlight.recsys.quant.rows import TableRows, part_types, rows_of
from rushlight.support.errors import require

_FORMAT = "rushlight.tables"
Blocks = Callable[[BaseEmbeddingConfig], Iterable[Tensor]]
"""The rows of a table as floats, block by block. It is asked once for each part of a file, such as codes and scales."""


def save_tables(collection: QuantTables, path: str | os.PathLike[str]) -> None:
    """Write the tables of a quantised collection to a file.

    save_tables(QuantEmbeddingBagCollection.from_float(collection), "tables.safetensors")
    """
    parts = {f"{name}.{part}": tensor for name, rows in collection.tables().items() for part, tensor in rows.items()}
    types = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in parts.items()}
    _write(collection.configs(), types, path, lambda name: iter([parts[name]]))


def write_tables(
    tables: Sequence[BaseEmbeddingConfig], data_type: DataType, blocks: Blocks, path: str | os.PathLike[str]
) -> None:
    """Write tables of a smaller type block by block, so that no table is in memory as a whole.

    write_tables(tables, DataType.INT8, lambda table: weights[table.name].split(100_000), "tables.safetensors")
    """
    configs = {table.name: table for table in tables}
    types = {
        f"{name}.{part}": of_part
        for name, table in configs.items()
        for part, of_part in part_types(table, data_type).items()
    }

    def parts(name: str) -> Iterator[Tensor]:
        table, part = name.rsplit(".", 1)
        count = 0
        for block in blocks(configs[table]):
            count += block.shape[0]
            yield rows_of(block, data_type)[part]
        expected = configs[table].num_embeddings
        require(count == expected, "E001", f"table {table!r} has other rows than its blocks", blocks=count)

    _write(tables, types, path, parts)


def _write(
    tables: Sequence[BaseEmbeddingConfig],
    types: Mapping[str, tuple[DType, tuple[int, ...]]],
    path: str | os.PathLike[str],
    parts: Callable[[str], Iterator[Tensor]],
) -> None:
    header, order = safetensors_header(types, {"format": _FORMAT, "tables": tables_text(tables)})

    def written() -> Iterator[bytes | memoryview]:
        yield header
        for name in order:
            for block in parts(name):
                yield block.detach().contiguous().numpy().data.cast("B")

    write_atomically(os.fspath(path), written())


def open_tables(path: str | os.PathLike[str]) -> QuantTables:
    """Return the collection of a file. Its rows are the file's pages. P005 where the file holds no tables.

    open_tables("tables.safetensors")(features)
    """
    with opened(path, mapped=True) as source:
        file = SafetensorsFile(source)
        held = file.metadata.get("format") == _FORMAT and "tables" in file.metadata
        require(held, "P005", f"open_tables: {source.name} holds no embedding tables")
        if isinstance(source, MappedSource):
            source.expect_scattered_reads()
        tables = read_tables(file.metadata["tables"])
        found = file.places()
        names: dict[str, dict[str, str]] = {}
        for name in found:
            table, _, part = name.rpartition(".")
            names.setdefault(table, {})[part] = name
        rows: list[TableRows] = []
        for config in tables:
            own = names.get(config.name, {})
            for name in own.values():
                fits = found[name][1][:1] == (config.num_embeddings,)
                require(fits, "P002", f"open_tables: {source.name} is damaged", entry=name)
            rows.append({part: file.read(name) for part, name in own.items()})
        return quantized_collection(tables, rows)
