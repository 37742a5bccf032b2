"""Running a program: with PyTorch or with Rushlight, as it is or transformed, and what came of it."""

from __future__ import annotations

import linecache
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.support.errors import InternalError, RushlightError
from rushlight.support.frozen import frozen
from tools.fuzz.program import DTYPES, Array, Input, Program

Transform = Callable[[Callable[..., Any]], Callable[..., Any]]


@frozen(eq=False)
class Value:
    """A result as data. `kind` is "Tensor", or the class of a Python number, whose `dtype` is that class again."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    array: Array


@frozen(eq=False)
class Outcome:
    """What a run gave.

    `values` has the results in order, those that are sequences one by one; `inputs` the storages of the inputs after
    the run; `gradients` those of the inputs, None where there is none. Where it raised, `error` is the class, `code`
    Rushlight's code (None for PyTorch, and for a raw error of Python) and `line` the statement that raised, or None;
    `late` tells that it was the backward pass.
    """

    values: tuple[Value, ...]
    inputs: tuple[Array, ...]
    gradients: tuple[Value | None, ...]
    error: str | None = None
    code: str | None = None
    message: str = ""
    line: int | None = None
    late: bool = False


def run(program: Program, module: Any, transform: Transform | None = None) -> Outcome:
    """Runs a program once, on copies of its inputs.

    Gradients are those of the results that require one, for fixed gradients of these (`weights_of`).
    """
    copies = {id(given.values): given.values.copy() for given in program.inputs}
    storages = tuple([copies[id(given.values)] for given in program.inputs])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flat = {id(given.values): flat_tensor(copies[id(given.values)], module) for given in program.inputs}
        tensors = [_leaf_of(given, flat[id(given.values)]) for given in program.inputs]
        try:
            results = function_of(program, module, transform)(*tensors)
            differentiate(results, module)
            values = tuple([value for result in results for value in values_of(result)])
            gradients = tuple([None if tensor.grad is None else value_of(tensor.grad) for tensor in tensors])
        except Exception as error:  # noqa: BLE001 - every error is an outcome
            return failed(error, storages, name_of(program))
    return Outcome(values, storages, gradients)


def failed(error: Exception, storages: Sequence[Array], name: str = "") -> Outcome:
    """The outcome of a run that raised; `name` is that of the program's text."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno - 2
        trace = trace.tb_next
    name = type(error).__name__.partition(" ")[0]  # Rushlight's classes have their code behind
    return Outcome((), tuple(storages), (), name, code_of(error), str(error), line)


def code_of(error: BaseException) -> str | None:
    """The code of an error of Rushlight's; "binding" of a TypeError of Python's own call; None of a raw error."""
    if isinstance(error, RushlightError):
        return None if isinstance(error, InternalError) else error.code
    frames = traceback.extract_tb(error.__traceback__)
    here = bool(frames) and "/rushlight/" in frames[-1].filename
    call = here and frames[-1].filename.endswith("/boundary.py")  # that of a checked function
    bound = isinstance(error, TypeError) and bool(frames) and (call or not here)
    return "binding" if bound else None


def function_of(program: Program, module: Any, transform: Transform | None = None) -> Callable[..., Any]:
    """The program as a function of its inputs."""
    text, name = program.body(), name_of(program)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"torch": module, "F": module.nn.functional}
    exec(compile(text, name, "exec"), scope)  # noqa: S102 - the generator's own text
    return scope["program"] if transform is None else transform(scope["program"])


def name_of(program: Program) -> str:
    """The name of a program's text in tracebacks."""
    return f"<program {program.seed}/{program.number}>"


def leaf(given: Input, storage: Array, module: Any) -> Any:
    """The tensor of an input, on a given storage."""
    return _leaf_of(given, flat_tensor(storage, module))


def _leaf_of(given: Input, flat: Any) -> Any:
    tensor = flat.as_strided(given.shape, given.strides, given.offset)
    return tensor.requires_grad_() if given.requires_grad else tensor


def flat_tensor(storage: Array, module: Any) -> Any:
    """A 1-d tensor that shares an array's memory."""
    if is_peer(module) and storage.dtype == DTYPES["bfloat16"]:
        return module.from_numpy(storage.view(np.int16)).view(module.bfloat16)
    return module.from_numpy(storage)


def is_peer(module: Any) -> bool:
    """Whether a module is PyTorch."""
    return module.__name__ == "torch"


def differentiate(results: Sequence[Any], module: Any) -> None:
    """Propagates fixed gradients of the results that require one to the inputs."""
    wanted = [result for result in results if getattr(result, "requires_grad", False)]
    if wanted:
        given = [flat_tensor(weights_of(result), module).to(result.dtype) for result in wanted]
        module.autograd.backward(wanted, given)


def weights_of(result: Any) -> Array:
    """The gradient of a result: quarters from -0.75 to 0.75 that repeat, exact in every dtype. Depends on its shape.

    Of complex results it has imaginary parts, half of the real ones in reversed order.
    """
    shape = tuple([int(size) for size in result.shape])
    real = ((np.arange(int(np.prod(shape))) * 5 % 7 - 3) / 4).astype(np.float32).reshape(shape)
    return real + 0.5j * real[..., ::-1] if shape and result.is_complex() else real


def values_of(result: Any) -> list[Value]:
    """A result as values: sequences of tensors one by one."""
    if isinstance(result, (tuple, list)) and any(hasattr(part, "stride") for part in result):
        return [value for part in result for value in values_of(part)]
    return [value_of(result)]


def value_of(result: Any) -> Value:
    """A tensor, number or plain sequence of numbers as data, copied."""
    if not hasattr(result, "stride"):
        kind = "sequence" if isinstance(result, (tuple, list)) else type(result).__name__
        if kind in ("dtype", "DType"):
            kind, result = "dtype", str(result).rpartition(".")[2]
        array = np.asarray(result)
        return Value(kind, kind, array.shape, (), array)
    dtype = str(result.dtype).partition(".")[2]
    shape = tuple([int(size) for size in result.shape])
    return Value("Tensor", dtype, shape, tuple(result.stride()), array_of(result).copy())


def array_of(tensor: Any) -> Array:
    """A tensor's elements as an array that shares its memory where it can."""
    tensor = tensor.detach()
    if type(tensor).__module__.partition(".")[0] != "torch":
        return tensor.numpy()
    tensor = tensor.resolve_conj().resolve_neg()
    if str(tensor.dtype) == "torch.bfloat16":
        return tensor.view(_torch_int16(tensor)).numpy().view(DTYPES["bfloat16"])
    return tensor.numpy()


def _torch_int16(tensor: Any) -> Any:
    return tensor.new_empty(()).short().dtype
