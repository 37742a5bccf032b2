"""The code that a call compiles, as text."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rushlight.support import settings

CODE = "08-kernels.ll"


def run_and_get_code(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """Calls a function, and returns its result with the LLVM text of what that compiled, in its order.

    The texts are of new graphs alone: a function that was compiled before for such arguments gives none.

    >>> run_and_get_code(rl.compile(lambda x: x + 1), rl.ones(2))[1][0].count("define")
    2
    """
    with tempfile.TemporaryDirectory(prefix="rushlight-code-") as folder, settings.override(dump=folder):
        result = function(*args, **kwargs)
        paths = sorted(Path(folder).glob(f"*/{CODE}"), key=lambda path: path.stat().st_mtime_ns)
        return result, [path.read_text(encoding="utf-8") for path in paths]
