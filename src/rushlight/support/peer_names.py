"""The names that PyTorch has, for telling a name that is missing here from one that is mistaken.

`torch_names.json` lists the public names of PyTorch 2.13 by our module's name; it is read when a name is not found.
"""

import functools
import json
from collections.abc import Iterable
from pathlib import Path

from rushlight.support.errors import error
from rushlight.support.names import did_you_mean


@functools.cache
def peer_names(module: str) -> frozenset[str]:
    """Return PyTorch's names in its counterpart of a module of ours (`rushlight.nn`)."""
    table: dict[str, str] = json.loads(Path(__file__).with_name("torch_names.json").read_text(encoding="utf-8"))
    return frozenset(table.get(module, "").split())


def absent_name(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error of a name that a module lacks: N001 where PyTorch has it, else N002, with the nearest one.

    Names of protocols (`__path__`) get a plain AttributeError: tools ask for them all the time.
    """
    if name.startswith("__"):
        return AttributeError(f"module {module} has no attribute {name}")
    hint = did_you_mean(name, known)
    peer = module.replace("rushlight", "torch", 1)
    if name in peer_names(module):
        report = error("N001", f"{module} has no {name} yet, which {peer} has", hint=hint)
    else:
        report = error("N002", f"module {module} has no attribute {name}", hint=hint)
    assert isinstance(report, AttributeError)
    return report
