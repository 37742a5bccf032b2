"""Codes of wrong calls: shapes, dtypes, indexing, arguments, names."""

from rushlight.support.errors.classes import (
    ArgumentRuntimeError,
    ArgumentTypeError,
    ArgumentValueError,
    DeprecationNotice,
    DTypeArgumentError,
    DTypeError,
    IndexRangeError,
    MissingLibraryError,
    MissingNameError,
    NativeLibraryError,
    NotSupportedError,
    RushlightWarning,
    ShapeError,
    StateKeyError,
)
from rushlight.support.errors.registry import register_code

register_code(
    "S001",
    ShapeError,
    "Shapes do not broadcast",
    "Counted from the last dim, each pair of sizes must be equal, or one of them 1, or missing.",
    "insert dims of size 1 with unsqueeze, or reshape one operand",
)
register_code(
    "S002",
    ShapeError,
    "The number of dims is wrong",
    "The operation is defined for tensors of certain ranks only.",
)
register_code(
    "S003",
    ShapeError,
    "Inner sizes of a matrix product differ",
    "The last size of the first operand must equal the second-last size of the second (the only one, of a vector).",
    "transpose one operand with .mT",
)
register_code(
    "S004",
    ShapeError,
    "The new shape has another number of elements",
    "A reshape keeps every element, so the product of the sizes may not change; at most one size may be -1.",
)
register_code(
    "S005",
    ShapeError,
    "Tensors to be joined differ in size",
    "Concatenation needs equal sizes in all dims but the one that is joined; stacking needs equal shapes.",
)
register_code(
    "S006",
    ShapeError,
    "The strides do not allow a view of this shape",
    "A view moves no data, and there is no set of strides that shows the elements in the order asked for.",
    "use reshape, which copies when it must",
)
register_code(
    "S007",
    ShapeError,
    "A size is negative",
    "Sizes count elements and are 0 or more; -1 is allowed only where one size is to be worked out.",
)
register_code(
    "S008",
    ShapeError,
    "A tensor cannot be expanded to this shape",
    "Only dims of size 1 expand, and new dims come in front.",
)
register_code(
    "S009",
    ShapeError,
    "The result does not fit the tensor it is written to",
    "In-place operations never change the shape of their target: the result must broadcast to it.",
)
register_code(
    "S010",
    ShapeError,
    "The parts of a split do not add up",
    "The sizes of the parts must sum to the size of the dim that is split.",
)
register_code(
    "S011",
    ShapeError,
    "A window is larger than its input",
    "With its padding the input must be at least as large as the dilated kernel in every spatial dim.",
    "add padding, or use a smaller kernel",
)
register_code(
    "S012",
    ShapeError,
    "A view reaches outside its storage",
    "Offset, sizes and strides of a view must stay within the storage's elements.",
)
register_code(
    "S013",
    ShapeError,
    "A write to a tensor whose elements overlap",
    "Several elements of an expanded view are one place in memory, so what a write leaves there would depend on order.",
    "call clone() or contiguous() first",
)
register_code(
    "S014",
    ShapeError,
    "Sizes that belong together differ",
    "An operand such as a weight, a bias, a target or a mask does not fit the operand it goes with.",
)
register_code(
    "S015",
    ShapeError,
    "A tensor of several elements has no single value",
    "Truth, int(), float() and item() are defined for tensors of exactly one element.",
    "use any(), all() or an index, or choose element by element with rl.where",
)

register_code(
    "D001",
    DTypeError,
    "The dtype is not supported",
    "The operation has no meaning, or no kernel, for tensors of this dtype.",
)
register_code(
    "D002",
    DTypeError,
    "Operands differ in dtype",
    "This operation does not promote: its operands must have one dtype.",
    "convert one operand with .to(dtype)",
)
register_code(
    "D003",
    DTypeError,
    "The result cannot be stored in this dtype",
    "In-place and out= forms convert within a kind (float64 to float32), never to a lower one (float to int).",
    "use the functional form, whose result has the promoted dtype",
)
register_code(
    "D004",
    DTypeArgumentError,
    "Not a dtype",
    "A dtype is one of the objects rushlight.float32, rushlight.int64 and so on.",
)
register_code(
    "D005",
    DTypeError,
    "Only floating-point and complex tensors can require gradients",
    "Integers and booleans have no derivative.",
    "convert with .float() first",
)
register_code(
    "D006",
    DTypeError,
    "Complex tensors are not supported here",
    "Complex dtypes have storage, views, arithmetic, elementary functions, sums and matrix products; not this.",
    "compute on real and imaginary parts",
)
register_code(
    "D007",
    DTypeError,
    "A number does not fit its dtype",
    "The value is outside the range that the dtype can hold.",
)

register_code(
    "I001",
    IndexRangeError,
    "An index is out of range",
    "For a dim of size n, indices run from -n to n - 1.",
)
register_code(
    "I002",
    IndexRangeError,
    "A dim is out of range",
    "For a tensor of n dims, dims run from -n to n - 1.",
)
register_code(
    "I003",
    IndexRangeError,
    "Too many indices",
    "A tensor takes at most one index per dim; None and ... do not count.",
)
register_code(
    "I004",
    IndexRangeError,
    "This cannot be an index",
    "Indices are ints, slices, None, ..., bool masks, and int tensors or lists.",
)
register_code(
    "I005",
    IndexRangeError,
    "A mask does not fit what it selects from",
    "A bool mask must have the sizes of the dims that it replaces.",
)
register_code(
    "I006",
    ArgumentRuntimeError,
    "A dim is named twice",
    "Each dim may appear once in a list of dims.",
)
register_code(
    "I007",
    IndexRangeError,
    "A reduction without identity over no elements",
    "max, min, argmax and their like need at least one element.",
)
register_code(
    "I008",
    ArgumentValueError,
    "A slice's step must be positive",
    "Strides are never negative, so a slice cannot run backwards.",
    "use flip",
)
register_code(
    "I009",
    IndexRangeError,
    "Indices do not broadcast",
    "Index tensors, lists and masks, of which each counts its true elements, have shapes that broadcast to one.",
)

register_code(
    "A001",
    ArgumentTypeError,
    "An argument has the wrong type",
    "The schema of the operation says which types an argument may have.",
)
register_code(
    "A002",
    ArgumentValueError,
    "An argument has a value that is not allowed",
    "The message says which values are.",
)
register_code(
    "A003",
    ArgumentTypeError,
    "An argument is missing, surplus or unknown",
    "The call does not fit the schema of the operation.",
)
register_code(
    "A004",
    ArgumentRuntimeError,
    "These arguments do not go together",
    "Each is allowed alone; the message says what their combination breaks.",
)
register_code(
    "A005",
    ArgumentValueError,
    "Nested sequences of unequal length",
    "A tensor is rectangular: sequences at one depth must have one length.",
)
register_code(
    "A006",
    NotSupportedError,
    "Not supported yet",
    "PyTorch has this and Rushlight does not, or not for these arguments; docs/coverage.md lists what there is.",
)
register_code(
    "A007",
    StateKeyError,
    "There is no such entry",
    "A module, parameter, buffer or group of this name does not exist.",
)

register_code(
    "A008",
    RushlightWarning,
    "A call that probably does not do what was meant",
    "It is allowed, and is done as asked; the message says what is unusual about it.",
)

register_code(
    "A009",
    DeprecationNotice,
    "An old name",
    "It does what it did; the hint says what has taken its place.",
)

register_code(
    "A010",
    ArgumentValueError,
    "A custom operator has no such schema",
    "The schema says what an operator takes, gives and writes to. It is written, or follows from annotations.",
    "annotate each parameter and the result, as in `def f(x: rl.Tensor, n: int = 1) -> rl.Tensor`",
)

register_code(
    "A011",
    ArgumentRuntimeError,
    "A registration of a custom operator is missing, or there already",
    "A kernel computes results, a fake kernel tells their types to graphs, a formula their gradients.",
)

register_code(
    "A012",
    ArgumentRuntimeError,
    "A custom operator does not do what it says",
    "Graphs, gradients and batches rely on the schema and on what was registered: rl.library.opcheck asks all of it.",
)

register_code(
    "N001",
    MissingNameError,
    "PyTorch has this name, Rushlight does not",
    "docs/coverage.md lists which of PyTorch's names exist here.",
)
register_code(
    "N002",
    MissingNameError,
    "There is no such attribute",
    "Neither Rushlight nor PyTorch has this name here.",
)
register_code(
    "N003",
    NativeLibraryError,
    "Native code for PyTorch cannot be loaded",
    "The library calls PyTorch's own libraries, which are not here. A package may run without its native code.",
)
register_code(
    "N004",
    MissingLibraryError,
    "A library is not installed",
    "A part of Rushlight needs it that few programs use; the base installation leaves it out.",
)
