"""The gradients of operators by compiled autograd, which traces the backward pass alone, against those of the tape.

python -m matrix_taped                # from tests/harness, with PYTHONPATH=../../src:. : all operators
python -m matrix_taped add            # one
python -m matrix_taped --every 10     # each tenth

All samples of an operator are asked one after the other, in float32 and twice, so that programs which were made for one
are found for others. Results and gradients have the tape's bits.
"""

import rushlight as rl
from matrix_cases import Case, base_dtype, sample_arguments, tensors_first
from matrix_command import ask_all, told
from matrix_exemptions import exemption_for
from matrix_intercepted import Prepared, applies, differs, outcome
from rushlight.compiler import compiled_autograd
from rushlight.ops.record import OPERATORS, Fact
from rushlight.support import settings


def cases_of(name):
    """All samples whose first operand is no number, in another order the second time."""
    samples = sample_arguments(name)
    chosen = [Case(name, at, base_dtype(samples[at])) for at in tensors_first(name)]
    return [*chosen, *reversed(chosen)]


def ask(case):
    """How results and gradients differ from the tape's; None if they do not."""
    prepared = Prepared(case)
    wanted = outcome(prepared.run, prepared.tensors())
    with compiled_autograd.enable():
        found = outcome(prepared.run, prepared.tensors())
    return differs(found, wanted)


def failures(op, counts=None):
    """What is wrong with an operator."""
    found = []
    if Fact.NONDIFFERENTIABLE in OPERATORS[op].facts:
        return found
    rl.compiler.reset()
    for case in cases_of(op):
        if not applies(case) or any(exemption_for(question, case) for question in ("eager", "vjp")):
            continue
        try:
            with settings.override(optimise=0):
                text = ask(case)
        except Exception as error:
            text = told(error)
        if counts is not None:
            counts["passes"] += 1
        if text is not None:
            found.append(f"{op} {case}: {text}")
    return found


if __name__ == "__main__":
    ask_all(failures)
