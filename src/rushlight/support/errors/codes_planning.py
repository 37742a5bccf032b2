"""Codes of plans of embedding tables."""

from rushlight.support.errors.classes import ArgumentValueError, DistError
from rushlight.support.errors.registry import register_code

register_code(
    "E020",
    ArgumentValueError,
    "The planner is given a figure that is none",
    "Sizes, shares and counts are numbers that are not negative; names are those of devices, kernels and optimizers "
    "that there are.",
    "correct the figure that the error names",
)
register_code(
    "E021",
    ArgumentValueError,
    "Constraints of a table cannot be met",
    "Constraints name tables of the model, and leave at least one sharding type with a kernel that the device has.",
    "allow another sharding type or compute kernel",
)
register_code(
    "E022",
    DistError,
    "Embedding tables do not fit into the memory of the ranks",
    "Rows, optimizer state, and the inputs and outputs of a step count; the reservation is taken off first.",
    "allow other sharding types, kernels of host memory or smaller numbers; reserve less; take more ranks",
)
register_code(
    "E023",
    ArgumentValueError,
    "The text of a plan, or of tables to plan, is malformed",
    "It is TOML with the names that docs/recsys-planner.md lists. Blocks of rows and columns make up each table, and "
    "each block has a rank.",
    "correct the line; `rushlight emb plan` writes texts that are right",
)
register_code(
    "E024",
    ArgumentValueError,
    "A plan is for other tables or ranks",
    "Tables are known by their names, shapes and numbers; a plan is for one number of ranks.",
    "make a plan for this model with `rushlight emb plan`",
)
