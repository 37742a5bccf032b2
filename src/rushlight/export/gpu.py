"""`ptx` and `amdgpu`: the kernels of an exported program for GPUs that need not be here."""

from __future__ import annotations

from rushlight.build.gpu import GpuCode, GpuObject, compile_amd, compile_ptx
from rushlight.export.packaging.interface import require_native
from rushlight.export.program import ExportedProgram
from rushlight.ir.graph import with_dense_outputs
from rushlight.support.errors import require


def ptx(program: ExportedProgram, architecture: str = "sm_80", tensor_cores: bool = True) -> GpuCode:
    """Write the kernels of an exported program as PTX text for "sm_80", "sm_90a" or "sm_100".

    The result has the `text`, which `ptxas` assembles or a driver loads, and `entries`: the name of each kernel's entry
    in the order of its launches' kernels, the threads of a block, and the number of its argument words.

    Products of 16-bit numbers are computed by tensor cores: by `wgmma` on "sm_90a", else by `mma`. These have an order
    of sums of their own. Without `tensor_cores` the order is the CPU's.

    C006 for an unknown architecture; P010 where a part of the program needs Python.

    >>> program = rl.export.export(model, (rl.ones(3, 8),))
    >>> print(rl.export.ptx(program, "sm_90a").text)
    """
    require(isinstance(program, ExportedProgram), "A001", "ptx: this is no exported program", got=type(program))
    require_native(program.graph, "ptx", flows=False)
    return compile_ptx(with_dense_outputs(program.graph), architecture, tensor_cores)


def amdgpu(program: ExportedProgram, architecture: str = "gfx90a") -> GpuObject:
    """Write the kernels of an exported program as an ELF object for "gfx90a", "gfx942" or "gfx1100".

    The result has the `code`, a relocatable object of the ABI `amdhsa` that `ld.lld -shared` makes loadable, and
    `entries` as `ptx` has them: each is a kernel symbol, beside its descriptor `NAME.kd`. A kernel takes its words
    as one argument. Sums have the order of the CPU's code.

    C006 for an unknown architecture; P010 where a part of the program needs Python.

    >>> program = rl.export.export(model, (rl.ones(3, 8),))
    >>> Path("kernels.o").write_bytes(rl.export.amdgpu(program, "gfx942").code)
    """
    require(isinstance(program, ExportedProgram), "A001", "amdgpu: this is no exported program", got=type(program))
    require_native(program.graph, "amdgpu", flows=False)
    return compile_amd(with_dense_outputs(program.graph), architecture)
