"""Codes of tensors that are divided among ranks."""

from rushlight.support.errors.classes import DistError
from rushlight.support.errors.registry import register_code

register_code(
    "W020",
    DistError,
    "A plain tensor meets a tensor that is divided among ranks",
    "Nothing says whether all ranks hold the same plain tensor, or each a part of one.",
    "distribute it with distribute_tensor() or DTensor.from_local(), or use implicit_replication() if all ranks hold "
    "the same",
)
register_code(
    "W021",
    DistError,
    "Tensors lie on different meshes",
    "An operator works along the axes of one mesh.",
    "redistribute one of them to the mesh of the other",
)
register_code(
    "W022",
    DistError,
    "An operator would communicate by itself",
    "In explicit mode ranks exchange data only where the program says so. The error names the placements that a tensor "
    "has and those that the operator needs.",
    "redistribute the tensor before the call",
)
register_code(
    "W023",
    DistError,
    "An operator has no rule for its operands' placements",
    "Each rank gets whole operands and computes all of the result.",
    "see comm_report() for what that costs",
)
register_code(
    "W024",
    DistError,
    "A dim cannot be divided evenly",
    "All ranks have to hold parts of one shape here.",
    "pad the tensor, or choose a mesh whose axes divide its sizes",
)
register_code(
    "W025",
    DistError,
    "What a rank holds does not fit the placements",
    "The parts of all ranks make up one tensor of one dtype: their shapes follow from its shape and placements.",
    "give the global shape as `shape`, or distribute the whole tensor with distribute_tensor()",
)
register_code(
    "W026",
    DistError,
    "A write to a view that is a copy",
    "The view of the divided tensor was communicated, and so it shares no memory with its base.",
    "write to the base, or redistribute it before the view is made",
)
register_code(
    "W027",
    DistError,
    "local_map has placements for another number of inputs or results",
    "There is one entry for each value among the arguments, and for each of the results; lists and tuples are opened.",
    "give an entry for each, None for what is no divided tensor",
)
