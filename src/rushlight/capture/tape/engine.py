"""Who runs backward passes while compiled autograd is on: it reads the tape, and runs the compiled program for it."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from rushlight.capture.api import compile
from rushlight.capture.tape.callbacks import CallbackArgs, CallbackTrigger, callback_handler
from rushlight.capture.tape.reading import Reading, read
from rushlight.capture.tape.steps import FAILED, holds_wrapper
from rushlight.capture.tape.writing import Program, write
from rushlight.eager.autograd.accumulate import AccumulateGrad
from rushlight.eager.autograd.driver import DRIVER, Pass, engaged, roots_of, run_backward, targets_of, used
from rushlight.eager.autograd.node import Node
from rushlight.eager.dispatch import STATE, UserScope
from rushlight.eager.handle import Handle, is_wrapper
from rushlight.support import events, settings
from rushlight.support.errors import CompileError, RushlightError, fail, require

Compiler = Callable[[Callable[..., Sequence[object]]], Callable[..., Sequence[object]]]
_MOST_PROGRAMS = 256
_REMEDIES = (
    "there are four ways to turn compiled autograd off: "
    "1. call backward() outside of rl.compiler.compiled_autograd.enable(); "
    "2. call it within rl.compiler.compiled_autograd.disable(); "
    "3. call the compiled function that contains it within rl.compiler.compiled_autograd.override(False); "
    "4. call rl.compiler.compiled_autograd.set_enabled(False) at the start of the program"
)
_numbers = itertools.count()


class _Compiled:
    """A program, and what the compiler made of it. `first` until it has run once."""

    __slots__ = ("first", "program", "run")

    def __init__(self, program: Program, run: Callable[..., Sequence[object]]) -> None:
        self.program = program
        self.run = run
        self.first = True


class Cache:
    """Compiled backward passes by compiler and by what is fixed of the tape, the latest used last."""

    def __init__(self) -> None:
        self._programs: OrderedDict[Hashable, list[_Compiled]] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return sum(map(len, self._programs.values()))

    def clear(self) -> None:
        """Forgets all of them."""
        with self._lock:
            self._programs.clear()

    def texts(self) -> list[str]:
        """The programs as text."""
        return [one.program.text for programs in list(self._programs.values()) for one in programs]

    def find(self, compiler: Compiler, reading: Reading) -> _Compiled:
        """What runs a pass; it is made if there is none: of sizes that have changed, arguments."""
        key = compiler, reading.key
        with self._lock:
            programs = self._programs.setdefault(key, [])
            self._programs.move_to_end(key)
            for one in programs:
                if one.program.fits(reading.sizes):
                    return one
            dynamic = _changed(programs, reading.sizes)
            programs.append(_made(compiler, write(reading, dynamic, next(_numbers))))
            if len(self._programs) > _MOST_PROGRAMS:
                self._programs.popitem(last=False)
            return programs[-1]


def _changed(programs: Sequence[_Compiled], sizes: Sequence[int]) -> set[int]:
    """The positions of sizes that are, or were, others in an earlier program."""
    return {
        at
        for one in programs
        for at, (fixed, size) in enumerate(zip(one.program.sizes, sizes, strict=True))
        if fixed is None or fixed != size
    }


def _made(compiler: Compiler, program: Program) -> _Compiled:
    run = compiler(program.function)
    require(callable(run), "A001", "compiled autograd: the compiler gives no function", given=type(run).__name__)
    return _Compiled(program, run)


CACHE = Cache()


def compiler_in_force() -> Compiler | None:
    """What compiles backward passes here; None where they are not compiled."""
    if STATE.backward_disabled:
        return None
    if STATE.backward_compiler is not None:
        return STATE.backward_compiler
    return compile if settings.get().compiled_autograd else None


def run(
    tensors: Sequence[object],
    gradients: Sequence[object],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[object] | None = None,
    accumulate: bool = True,
    allow_unused: bool = False,
) -> tuple[object, ...]:
    """As `run_backward`, by a compiled program. Errors: G022 for what cannot be compiled."""
    compiler = compiler_in_force()
    # A graph that is traced has the pass in it, and a pass over tensors without data computes nothing.
    if compiler is None or STATE.tracer is not None or any(map(_lacks_data, tensors)):
        return run_backward(tensors, gradients, keep_graph, create_graph, inputs, accumulate, allow_unused)
    _refuse_surroundings()
    roots, targets = roots_of(tensors, gradients), targets_of(inputs or ())
    one = Pass(keep_graph, create_graph, inputs is not None, not accumulate)
    one.plan(roots, targets)
    with engaged(create_graph, one):
        reading = read(roots, targets, inputs if accumulate else None, inputs is not None, create_graph)
        found = _run(compiler, reading)
        _release(reading, keep_graph)
        for callback in one.callbacks:
            callback()
    if accumulate:
        return ()
    return tuple([used(gradient, allow_unused) for gradient in found])


def _run(compiler: Compiler, reading: Reading) -> Sequence[object]:
    compiled = CACHE.find(compiler, reading)
    arguments = compiled.program.arguments(reading)
    wrapper = holds_wrapper(arguments)
    if wrapper is not None:
        fail("G022", "compiled autograd: a tensor of a subclass", tensor=type(wrapper).__name__, hint=_REMEDIES)
    try:
        return compiled.run(*arguments) if not compiled.first else _first_run(compiled, arguments)
    except CompileError as error:
        fail("G022", "compiled autograd: one graph cannot hold this", cause=error.message, hint=_REMEDIES)
    except Exception as error:
        number = getattr(error, FAILED, None)
        if number is not None:
            _locate(error, reading.nodes[number])
        raise


def _lacks_data(tensor: object) -> bool:
    return isinstance(tensor, Handle) and tensor.backing is None and not is_wrapper(tensor)


def _locate(error: Exception, node: Node) -> None:
    """Adds the forward's line to an error of a step."""
    if not isinstance(error, RushlightError) or error.frame is not node.frame:
        where = "" if node.frame is None else f", recorded at {node.frame}"
        error.add_note(f"  in backward of {node.name()}{where}")


def _first_run(compiled: _Compiled, arguments: Sequence[object]) -> Sequence[object]:
    """A run that compiles the program, which callbacks are told of."""
    number = f"!{next(_numbers)}"
    events.record("compile", number, f"compiled autograd: a backward pass of {len(arguments)} values is compiled")
    with callback_handler.compiling(CallbackArgs(CallbackTrigger.COMPILED_AUTOGRAD, number)):
        result = compiled.run(*arguments)
    compiled.first = False
    return result


def _refuse_surroundings() -> None:
    """G022 where somebody wants to see what runs."""
    seen = [
        ("a mode of dispatch or of functions is on", STATE.modes or STATE.functions),
        ("anomaly mode is on", STATE.anomaly),
        ("it is within vmap", STATE.maps),
        ("it is within forward_ad", STATE.duals),
    ]
    for reason, found in seen:
        if found:
            fail("G022", f"compiled autograd: {reason}", hint=_REMEDIES)


def _release(reading: Reading, keep: bool) -> None:
    """Frees what the nodes that have run had saved."""
    for node in () if keep else reading.nodes:
        if id(node) in reading.running and not isinstance(node, AccumulateGrad):
            node.release()


class enable(UserScope):  # noqa: N801 - a function to who calls it
    """While inside, backward passes are compiled, also within `disable`: by `compiler_fn` or `rl.compile`.

    `compiler_fn(program)` gets a function and gives one of the same arguments, as `rl.compile` does. Contexts nest.

    ```python
    with rl.compiler.compiled_autograd.enable(rl.compile):
        loss.backward()
    ```
    """

    __slots__ = ()

    def __init__(self, compiler_fn: Compiler | None = None, dynamic: bool = True) -> None:
        compiler = compile if compiler_fn is None else compiler_fn
        require(callable(compiler), "A001", "compiled_autograd: a compiler is a function", given=compiler_fn)
        super().__init__(backward_compiler=compiler, backward_disabled=False)


class disable(UserScope):  # noqa: N801 - a function to who calls it
    """While inside, backward passes are not compiled, whatever contexts and settings say."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(backward_disabled=True)


def is_enabled() -> bool:
    """Return whether backward passes are compiled here."""
    return compiler_in_force() is not None


def reset() -> None:
    """Forgets all compiled backward passes."""
    CACHE.clear()


DRIVER[0] = run
