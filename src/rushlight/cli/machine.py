"""`rushlight info` and `rushlight doctor`."""

from __future__ import annotations

import platform
import sys

import numpy as np
import typer
from rich.console import Console

import rushlight as rl
from rushlight.cli.caching import size_text
from rushlight.cli.checks import examine
from rushlight.runtime import limits, llvm, objects
from rushlight.support import settings

# What decides which kernels are generated, as LLVM names it.
NOTABLE = (
    *("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16", "avx512fp16", "amx-tile"),
    *("neon", "fullfp16", "bf16", "dotprod", "i8mm", "sve", "sve2"),
)


def info() -> None:
    """Print versions, processor, threads, cache and settings."""
    console = Console()
    host = llvm.host_target()
    cache = objects.shared()
    entries, size_bytes = cache.usage()
    values = settings.get()
    changed = [row for name, row in settings.SETTINGS.items() if getattr(values, name) != row.default]
    facts = {
        "rushlight": f"{rl.__version__}, {rl.__path__[0]}",
        "python": f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}",
        "numpy": np.__version__,
        "llvmlite": f"{llvm.version()} (LLVM {'.'.join(map(str, llvm.binding().llvm_version_info))})",
        "system": f"{sys.platform}, {host.triple}",
        "processor": f"{host.cpu}, vectors of {host.vector_bytes} bytes",
        "features": ", ".join(features(host.features)) or "none of note",
        "target": values.target,
        "threads": f"{rl.get_num_threads()} of {limits.available_cores()} processors",
        "memory": size_text(limits.memory_bytes()),
        "cache": f"{cache.directory or 'in memory only'}: {entries} entries, "
        f"{size_text(size_bytes)} of at most {size_text(cache.limit_bytes)}",
        "settings": ", ".join([f"{row.variable}={getattr(values, row.name)}" for row in changed])
        or "all as by default",
    }
    for name, fact in facts.items():
        console.print(f"{name:<10} {fact}", markup=False, highlight=False, soft_wrap=True)


def features(text: str) -> list[str]:
    """The notable ones of LLVM's list of features."""
    present = {name[1:] for name in text.split(",") if name.startswith("+")}
    return [name for name in NOTABLE if name in present]


def doctor() -> None:
    """Compile and check a probe kernel and whatever it needs; exit with 1 if something is wrong."""
    console = Console()
    failed = 0
    for finding in examine():
        sign, style = ("ok", "green") if finding.well else ("FAIL", "bold red")
        console.print(f"[{style}]{sign:<4}[/] ", end="")
        console.print(f"{finding.subject:<9} {finding.text}", markup=False, highlight=False, soft_wrap=True)
        if not finding.well:
            failed += 1
            console.print(f"     to mend it: {finding.remedy}", markup=False, highlight=False, soft_wrap=True)
    console.print("Everything works." if not failed else f"{failed} of these must be mended first.", highlight=False)
    raise typer.Exit(1 if failed else 0)
