"""The names that PyTorch has, for telling a name that is missing here from one that is mistaken.

`torch_names.txt` lists the public names of PyTorch 2.13 by our module's name; it is read when a name is not found.
"""

import functools
import os
import sys
from collections import Counter
from collections.abc import Iterable
from types import FrameType

from rushlight.support.errors import error
from rushlight.support.names import did_you_mean
from rushlight.support.provenance import is_users

_asked_for: Counter[str] = Counter()


@functools.cache
def peer_names(module: str) -> frozenset[str]:
    """Return PyTorch's names in its counterpart of a module of ours (`rushlight.nn`)."""
    with open(os.path.join(os.path.dirname(__file__), "torch_names.txt"), encoding="utf-8") as lines:
        table = dict(line.split(": ", 1) for line in lines)
    return frozenset(table.get(module, "").split())


def absent_name(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Return the error of a name that a module lacks: N001 where PyTorch has it, else N002, with the nearest one.

    Names of protocols (`__path__`) get a plain AttributeError: tools ask for them all the time.
    """
    if name.startswith("__"):
        return AttributeError(f"module {module} has no attribute {name}")
    peer = module.replace("rushlight", "torch", 1)
    if name in peer_names(module):  # it is meant as it is written
        count_absent(f"{peer}.{name}")
        report = error("N001", f"{module} has no {name} yet, which {peer} has")
    else:
        report = error("N002", f"{module} has no attribute {name}", hint=did_you_mean(name, names))
    assert isinstance(report, AttributeError)
    return report


def count_absent(name: str) -> None:
    """Count that a name of PyTorch, such as `torch.nn.quantized`, was asked for and does not exist here.

    `from torch.nn import quantized` asks for an attribute, for a module and for the attribute again, and counts once.
    """
    if not _within_from_import():
        _asked_for[name] += 1


def absent_names() -> dict[str, int]:
    """Return the names of PyTorch that were asked for and do not exist here, and how often."""
    return dict(_asked_for)


def _within_from_import() -> bool:
    """Whether importlib tries the names of a `from` import, with no line of the user's in between."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_users(frame.f_code.co_filename):
        if frame.f_code.co_name == "_handle_fromlist":
            return True
        frame = frame.f_back
    return False
