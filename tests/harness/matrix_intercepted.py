"""The operators under a mode that logs, and on tensors of a subclass: eager and compiled, forward and backward.

python -m matrix_intercepted                # from tests/harness, with PYTHONPATH=../../src:. : all operators
python -m matrix_intercepted add            # one
python -m matrix_intercepted --every 10     # each tenth

`logged` asks whether an operator under the logging mode of examples/ gives the same bits and gradients as without it,
and the same log when it is compiled; `paired` whether on a pair of tensors (TwoTensor of examples/) the results and
gradients are those of each tensor alone. A case is a sample of an operator in float32.
"""

import importlib.util
from pathlib import Path

import numpy as np

import rushlight as rl
from matrix_calls import (
    built,
    call_without,
    flat_tensors,
    key_of,
    outputs_of,
    same_tensors,
    structure_of,
)
from matrix_cases import Case, base_dtype, materialise, richest_of, sample_arguments, tensors_first
from matrix_command import ask_all, told
from matrix_exemptions import exemption_for
from matrix_gradients import with_gradients
from rushlight.autograd import grad
from rushlight.eager.creation import from_numpy
from rushlight.ops.record import Fact
from rushlight.support import events

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# What is in memory, and numbers of Python's.
LEFT_OUT = {"empty", "empty_like", "as_number"}


def example(name):
    """A module of examples/."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LoggingMode = example("logging_mode").LoggingMode
TwoTensor = example("two_tensor").TwoTensor


def cases_of(name):
    """The first sample of an operator, and the one with most operands."""
    samples = sample_arguments(name)
    asked = tensors_first(name)
    chosen = {*asked[:1], *({richest_of(name)} & {*asked})}
    return [Case(name, sample, base_dtype(samples[sample])) for sample in sorted(chosen)]


class Prepared:
    """A call of an operator as a function of tensors, and tensors of the case or of other values."""

    def __init__(self, case):
        self.arguments = materialise(case)
        self.op = case.operator
        operands = built(self.arguments.operands, lambda leaf: from_numpy(leaf.array.copy()))
        self.run = call_without(self.op, structure_of(operands), key_of(self.arguments.attrs))
        self.differentiable = Fact.NONDIFFERENTIABLE not in self.op.facts

    def tensors(self, change=lambda array: array):
        """Fresh leaves."""
        made = built(self.arguments.operands, lambda leaf: from_numpy(np.array(change(leaf.array))))
        return [leaf.requires_grad_(self.differentiable and leaf.is_floating_point()) for leaf in flat_tensors(made)]


def outcome(run, tensors):
    """Results and gradients by all tensors that have one."""
    rl.manual_seed(3)
    results = outputs_of(run(*tensors))
    outs = [out for out in with_gradients([out for out in results if isinstance(out, rl.Tensor)]) if out.requires_grad]
    wanted = [tensor for tensor in tensors if tensor.requires_grad]
    if not outs or not wanted:
        return results, []
    weights = [rl.ones_like(out) for out in outs]
    return results, list(grad(outs, wanted, weights, allow_unused=True))


def differs(found, wanted):
    """How results and gradients differ; None if they do not."""
    for kind, ones, others in zip(("results", "gradients"), found, wanted, strict=True):
        if not any(isinstance(one, rl.Tensor) for one in [*ones, *others]):
            continue  # no gradient by any operand
        text = same_tensors([_detached(one) for one in ones], [_detached(other) for other in others])
        if text is not None:
            return f"{kind}: {text}"
    return None


def _detached(tensor):
    return tensor.detach() if isinstance(tensor, rl.Tensor) else tensor


def ask_logged(case):
    """Bits and logs under the mode."""
    prepared = Prepared(case)
    wanted = outcome(prepared.run, prepared.tensors())
    compiled = rl.compile(prepared.run)
    outcome(compiled, prepared.tensors())
    logs = []
    for run in (prepared.run, compiled):
        tensors = prepared.tensors()
        with LoggingMode() as log:
            found = outcome(run, tensors)
        text = differs(found, wanted)
        if text is not None:
            return f"{'compiled' if run is compiled else 'eager'}, {text}"
        logs.append(log.lines)
    if not logs[0]:
        return "the mode has seen nothing"
    return None if logs[0] == logs[1] else f"the compiled function logs {logs[1]} instead of {logs[0]}"


def ask_paired(case):
    """Bits of pairs."""
    prepared = Prepared(case)
    changes = [lambda array: array, lambda array: array]
    if Fact.DATA_DEPENDENT not in prepared.op.facts:
        changes[1] = _other_values
    wanted = []
    for at, change in enumerate(changes):
        try:
            wanted.append(outcome(prepared.run, prepared.tensors(change)))
        except rl.RushlightError:  # values outside of the operator's domain
            if not at:
                raise
            changes[1] = changes[0]
            wanted.append(wanted[0])
    for run in (prepared.run, rl.compile(prepared.run)):
        firsts, seconds = (prepared.tensors(change) for change in changes)
        pairs = [
            TwoTensor(one.detach(), other.detach(), requires_grad=one.requires_grad)
            for one, other in zip(firsts, seconds, strict=True)
        ]
        found = outcome(run, pairs)
        for name, expected in zip("ab", wanted, strict=True):
            text = differs(tuple([_part(one, name) for one in ones] for ones in found), expected)
            if text is not None:
                return f"{'eager' if run is prepared.run else 'compiled'}, {name}: {text}"
    return None


def _other_values(array):
    return array * array.dtype.type(0.75) if array.dtype.kind == "f" else array


def _part(value, name):
    return getattr(value, name) if isinstance(value, TwoTensor) else value


QUESTIONS = {"logged": ask_logged, "paired": ask_paired}


def applies(case):
    """Whether the results of an operator are the same at each call."""
    return case.op not in LEFT_OUT and Fact.RANDOM not in case.operator.facts


def failures(op, counts=None):
    """What is wrong with an operator under both questions."""
    found = []
    for case in cases_of(op):
        if not applies(case) or any(exemption_for(question, case) for question in ("eager", "compiled")):
            continue
        for question, ask in QUESTIONS.items():
            rl.compiler.reset()
            events.reset()
            try:
                text = ask(case)
            except Exception as error:
                text = told(error)
            if counts is not None:
                counts[question] += 1
                counts["in parts"] += question == "paired" and bool(events.events("graph_break"))
            if text is not None:
                found.append(f"{op} {question} {case}: {text}")
    return found


if __name__ == "__main__":
    ask_all(failures)
