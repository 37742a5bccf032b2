"""Records samples of PyTorch's operator database with what PyTorch makes of them, for tests without it.

`python -m tools.opdb.freezing tests/ops/operator_samples.npz` (with PyTorch) keeps, of every operator that exists here
by the same name, the first samples of each dtype that are small, and gradients of those in float32. What differs here
is printed and left out, unless a rule of deviations explains it. Files are those of `tools.fuzz.recording`.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from rushlight.support import settings
from tools.fuzz.judging import peer_truth
from tools.fuzz.operators import judged
from tools.fuzz.program import Program, dense_input
from tools.fuzz.recording import Recorder
from tools.fuzz.running import weights_of
from tools.fuzz.stepping import Step, traced
from tools.opdb import answering, pytorch
from tools.opdb.calls import Call

DTYPES = ("float32", "bfloat16", "int64", "complex64")
SAMPLES = 2
_ELEMENTS = 600  # of all operands: larger samples are left out


def named_alike(entry: Any) -> bool:
    """Whether the entry is a function that is here at the same path."""
    wrapped = isinstance(entry.op, FunctionType) and entry.op.__module__.startswith("torch.testing")
    return not wrapped and callable(answering.attribute(entry.name)) and "like" not in entry.name


def programs_of(entry: Any, dtype_name: str) -> Iterator[Program]:
    """A program of one call for each of the first small samples."""
    dtype = getattr(pytorch.torch, dtype_name)
    if dtype not in entry.dtypes:
        return
    kept = 0
    for position, sample in enumerate(pytorch.samples_of(entry, dtype, False, False)):
        call = pytorch.call_of(sample)
        small = sum([given.values.size for given in call.inputs]) <= _ELEMENTS
        if kept == SAMPLES or position > 40:
            return
        if small and call.inputs and position % 2 == 0:
            kept += 1
            yield call.program(entry.name, position)


def gradient_program(entry: Any, dtype_name: str) -> Program | None:
    """The gradients of one small sample whose result is one tensor."""
    if dtype_name != "float32" or not entry.supports_autograd:
        return None
    for position, sample in enumerate(pytorch.samples_of(entry, pytorch.torch.float32, True, False)):
        call: Call = pytorch.call_of(sample)
        wanted = [f"v{number}" for number, given in enumerate(call.inputs) if given.requires_grad]
        if not wanted or sum([given.values.size for given in call.inputs]) > _ELEMENTS or position % 3:
            continue
        found = answering.run(entry.op, call, pytorch.torch)
        if found.error is not None or len(found.values) != 1 or any(part is None for part in found.gradients):
            continue
        count = len(call.inputs)
        text = re.sub(rf"\b({'|'.join(wanted)})\b", r"\1.requires_grad_()", call.text(entry.name))
        seed = dense_input(weights_of(pytorch.torch.empty(found.values[0].shape)), "float32")
        left = "".join([f"v{count + 1 + place}, " for place in range(len(wanted))])
        statement = f"{left.rstrip()} = torch.autograd.grad({text}, [{', '.join(wanted)}], v{count})"
        return Program(0, position, (*call.inputs, seed), (statement,), ())
    return None


def all_steps() -> Iterator[tuple[str, Program, Step]]:
    """Every call that is to be recorded, as PyTorch ran it."""
    for entry in pytorch.operators():
        for dtype in DTYPES if named_alike(entry) else ():
            gradient = gradient_program(entry, dtype)
            for program in (*programs_of(entry, dtype), *([gradient] if gradient else ())):
                yield f"{pytorch.label(entry)} {dtype}", program, traced(program, pytorch.torch)[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Records the samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    gc.freeze()
    recorder, truth, skipped, wrong = Recorder(), peer_truth(pytorch.torch), Counter[str](), 0
    with settings.override(optimise=0):
        for key, program, step in all_steps():
            before = skipped.total()
            if step.error is not None:
                continue
            _, detail, _ = judged(step, program, skipped)
            if detail is not None:
                wrong += 1
                print(f"{key}: {step.statement}: {detail[:200]}", flush=True)
            elif skipped.total() == before:
                recorder.add([step], truth)
    recorder.write(options.path)
    size = options.path.stat().st_size
    print(f"{len(recorder.programs)} calls, {wrong} left out, {size} bytes; explained {dict(skipped)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
