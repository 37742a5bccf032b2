"""Codes of jagged data and embedding tables."""

from rushlight.support.errors.classes import ArgumentValueError, ExecutionError, IndexRangeError, StateKeyError
from rushlight.support.errors.registry import register_code

register_code(
    "E001",
    ArgumentValueError,
    "A description of an embedding table has a value that is not allowed",
    "Tables have a positive number of rows and of numbers in each, and features with names.",
)
register_code(
    "E002",
    ArgumentValueError,
    "A name stands for two tables or features",
    "Results and checkpoints name tables and features, so that each name is one of them.",
    "give each table a name of its own, and each feature once",
)
register_code(
    "E003",
    ArgumentValueError,
    "Lengths do not divide the values",
    "Lengths sum to the number of values, offsets go from 0 to it, and there is a length for each key and each row of "
    "a batch.",
)
register_code(
    "E004",
    ArgumentValueError,
    "A length of jagged data is negative",
    "Offsets ascend, and no row has less than no values.",
)
register_code(
    "E005",
    StateKeyError,
    "Jagged data has no such key, or no weights",
    "Results are by the keys of the features that were given.",
)
register_code(
    "E006",
    IndexRangeError,
    "An id is beyond the rows of its table",
    "The ids of a feature name rows of its table: they go from 0 to its number of rows.",
    "hash ids without bounds into the table, or give it more rows",
)
register_code(
    "E030",
    ArgumentValueError,
    "A request to a service is malformed",
    "It is a JSON object with the ids of each feature, and the rows of each dense input, a list for each example.",
    "GET /v1/inputs tells what the service takes",
)
register_code(
    "E031",
    ExecutionError,
    "A service does not take the request on",
    "It bounds how many requests wait and how long, and listens at an address that no other program has.",
    "try again later",
)
