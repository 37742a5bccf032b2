"""Functions that a trace does not interpret: which have no effects, and which change their operands."""

from __future__ import annotations

import _thread
import io
import os
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from functools import cache
from types import BuiltinFunctionType

from rushlight.eager.subclass import attributes_of, state_of_object

PURE = frozenset(
    {"builtins", "math", "cmath", "operator", "_operator", "itertools", "functools", "_functools", "collections"}
    | {
        "_collections",
        "abc",
        "_abc",
        "copy",
        "copyreg",
        "enum",
        "dataclasses",
        "typing",
        "types",
        "re",
        "_sre",
        "heapq",
    }
    | {"_heapq", "bisect", "_bisect", "string", "struct", "_struct", "numbers", "fractions", "decimal", "datetime"}
    | {"textwrap", "array"}
)  # modules whose functions of C have no effects, but for those named next
PURE_FUNCTIONS = frozenset(map(id, [sys.intern, sys.getrecursionlimit, sys.getdefaultencoding, os.fspath]))
EFFECTS = frozenset({hash, print, input, open, exec, eval, __import__, breakpoint})
MUTATING = frozenset(
    {
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "clear",
        "sort",
        "reverse",
        "update",
        "setdefault",
        "popitem",
        "add",
    }
    | {"discard", "appendleft", "popleft", "extendleft", "rotate", "move_to_end", "subtract", "difference_update"}
    | {
        "intersection_update",
        "symmetric_difference_update",
        "__setitem__",
        "__delitem__",
        "__iadd__",
        "__ior__",
        "__imul__",
        "__isub__",
        "__iand__",
        "__ixor__",
        "__init__",
        "__setstate__",
        "write",
    }
)
SPREADING = frozenset(
    {"extend", "extendleft", "update", "difference_update", "intersection_update", "symmetric_difference_update"}
    | {"__iadd__", "__ior__", "__isub__", "__iand__", "__ixor__"}
)  # those that put in what their arguments hold
# Methods of dicts and sets that look up their first argument.
BY_KEY = frozenset(
    {"get", "setdefault", "pop", "add", "discard", "remove", "move_to_end", "__getitem__", "__delitem__"}
    | {"__contains__", "__setitem__"}
)
# What makes objects of C whose methods change nothing else, and their classes.
MAKERS = (_thread.RLock, _thread.allocate_lock, _thread.LockType, io.StringIO, io.BytesIO)
TEXTS = frozenset({repr, format, ascii})
SETTING = {"__setattr__": 2, "__delattr__": 1}  # methods of C, and how many arguments they have
OF_AUTOGRAD = frozenset(
    {
        "grad_fn",
        "output_nr",
        "retains_grad",
        "_version",
        "_base",
        "data_ptr",
        "untyped_storage",
        "is_shared",
        "is_set_to",
    }
)  # of tensors
# What a tensor is made of: that of a trace is made of other things, which are no program's business.
INSIDE = frozenset({"backing", "form", "gradient", "keys", "node", "offset", "version", "view_of"})
TAKES_NUMBERS = frozenset(
    map(id, [abs, min, max, sum, divmod, pow, tuple, list, dict, zip, enumerate, map, reversed, sorted])
)
READING = frozenset({"forward", "__getattr__"})  # methods of modules without tensors
KEEPING_WHOLE = frozenset(map(id, [list, tuple, len]))  # look into no value of a list
ALL_ATTRIBUTES = frozenset(map(id, [attributes_of, state_of_object]))  # functions of ours that copies of tensors call
IMMUTABLE = frozenset({type(None), bool, int, float, complex, str, bytes, BuiltinFunctionType, frozenset})
CONTAINERS = frozenset({list, dict, set, bytearray, deque, defaultdict, OrderedDict, Counter})
PACKAGE = __name__.partition(".")[0]

# Packages, modules and functions of ours that a trace runs as they are: operators, what is made of them, and what asks
# for the state of the trace. Others have effects, as on the classes of modules, or tell what differs from call to call.
TRACED = frozenset(
    {"amp", "autograd", "capture", "compat", "compiler", "distributed", "eager", "fft", "func", "fx", "library"}
    | {"linalg", "masked", "nested", "nn", "ops", "optim", "overrides", "random", "recsys", "shapes", "signal"}
    | {"sparse", "special", "testing", "tile", "torch", "utils", "export.module", "onnx.module", "onnx.ops"}
    | {"ir.dtype", "ir.type", "ir.value", "ir.placement", "ir.process_group", "support.errors"}
)
NOT_TRACED = frozenset(
    {
        "amp.grad_scaler",
        "capture.marks",
        "capture.stance",
        "compat.cuda",
        "compat.cuda_amp",
        "compat.modes",
        "eager.autograd.check",
    }
    | {
        "eager.autograd.node",
        "eager.dispatch.table",
        "eager.execution.operands",
        "eager.handle.make",
        "eager.native",
        "eager.printing",
        "eager.symbols.SymInt",
        "eager.symbols.SymFloat",
    }
    | {"utils.data", "utils.swapping"}
    | {"distributed.checkpoint", "distributed.engine", "distributed.launch", "distributed.optim.in_backward"}
    | {"distributed.simulation", "distributed.spawning", "distributed.stores", "distributed.tensor.loops"}
    | {"distributed.tensor.rules", "distributed.fsdp.api.fully_shard"}
    | {f"utils.checkpoint.wrapper.{name}" for name in ("checkpoint_wrapper", "apply_activation_checkpointing")}
    | {f"nn.utils.parametrize.{name}" for name in ("register_parametrization", "remove_parametrizations")}
    | {"nn.tree.buffer", "nn.utils.parametrize.transfer_parametrizations_and_params"}
    | {f"nn.utils.parametrizations.{name}" for name in ("orthogonal", "spectral_norm", "weight_norm")}
    | {"recsys.datasets", "recsys.inference", "recsys.metrics", "recsys.modules.groups", "recsys.planner"}
    | {"recsys.quant.files"}
    | {"support.errors.classes"}
)  # within these


@cache
def is_traced(module: str, function: str = "") -> bool:
    """Whether a trace runs a function of ours as it is: what is said of it, of its module, or of a package of that."""
    parts = [*module.split(".")[1:], function]
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    said = next((name for name in names if name in TRACED or name in NOT_TRACED), "")
    return said in TRACED or len(parts) == 1


CLASSES_OF_ERRORS = f"{PACKAGE}.support.errors.classes"
RECORD = f"{PACKAGE}.ops.record"
# What registers operators and their rules there.
REGISTERING = frozenset(
    {"define", "undefine", "defer", "declare", "meta", "ref", "lower", "decompose", "view", "shares"}
    | {"inverse", "vjp", "samples", "kernel"}
)
RANDOM = f"{PACKAGE}.runtime.generator"
OF_DTYPES = f"{PACKAGE}.compat."  # there the class of a number counts
