"""Descriptions of tables as text: what files of tables and exported programs say of them.

[[table]]
name = "user"
rows = 1000
columns = 64
features = ["user_id"]
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.recsys.configs import BaseEmbeddingConfig, DataType, EmbeddingBagConfig, PoolingType
from rushlight.recsys.planner.toml import assignment, read
from rushlight.recsys.planner.workload import read_config
from rushlight.support.errors import require


def tables_text(tables: Sequence[BaseEmbeddingConfig]) -> str:
    """Return a text of tables. How their rows began is not part of it."""
    return "\n".join([line for table in tables for line in ("[[table]]", *_lines(table))]) + "\n"


def _lines(table: BaseEmbeddingConfig) -> list[str]:
    pooling = table.pooling if isinstance(table, EmbeddingBagConfig) else PoolingType.NONE
    lines = [
        assignment("name", table.name),
        assignment("rows", table.num_embeddings),
        assignment("columns", table.embedding_dim),
        assignment("features", table.feature_names),
    ]
    if table.data_type is not DataType.FP32:
        lines.append(assignment("data_type", table.data_type))
    if pooling is not PoolingType.SUM:
        lines.append(assignment("pooling", pooling))
    return lines


def read_tables(text: str) -> list[BaseEmbeddingConfig]:
    """Return the tables of a text. E023 where it is no such text."""
    whole = read(text, "the description of tables")
    tables: list[BaseEmbeddingConfig] = []
    for section in whole.sections("table"):
        _, config = read_config(section)
        section.end()
        tables.append(config)
    whole.end()
    require(tables, "E023", "the text describes no table", hint="a section [[table]] for each")
    return tables
