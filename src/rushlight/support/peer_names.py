"""The names that PyTorch has, for telling a name that is missing here from one that is mistaken.

`torch_names.txt` lists the public names of PyTorch 2.13 by our module's name; it is read when a name is not found.
"""

import functools
import os
from collections.abc import Iterable

from rushlight.support.errors import error
from rushlight.support.names import did_you_mean


@functools.cache
def peer_names(module: str) -> frozenset[str]:
    """Return PyTorch's names in its counterpart of a module of ours (`rushlight.nn`)."""
    with open(os.path.join(os.path.dirname(__file__), "torch_names.txt"), encoding="utf-8") as lines:
        table = dict(line.split(": ", 1) for line in lines)
    return frozenset(table.get(module, "").split())


def absent_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error of a name that a module lacks: N001 where PyTorch has it, else N002, with the nearest one.

    Names of protocols (`__path__`) get a plain AttributeError: tools ask for them all the time.
    """
    if name.startswith("__"):
        return AttributeError(f"module {module} has no attribute {name}")
    peer = module.replace("rushlight", "torch", 1)
    if name in peer_names(module):  # it is meant as it is written
        report = error("N001", f"{module} has no {name} yet, which {peer} has")
    else:
        report = error("N002", f"{module} has no attribute {name}", hint=did_you_mean(name, known))
    assert isinstance(report, AttributeError)
    return report
