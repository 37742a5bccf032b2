"""What differs in LLVM IR between makers of GPUs: a thread's and a block's index, barriers, entries, private memory."""

from __future__ import annotations

from types import MappingProxyType

from rushlight.support.frozen import frozen

NVIDIA, AMD = "nvptx64", "amdgcn"


@frozen
class GpuWords:
    """The words of one architecture. `private` is the address space of a thread's own memory.

    In `entry`, an entry's beginning, stand its `name`, the argument `words` and the `threads` of a block.
    """

    thread: str
    block: str
    barrier: tuple[str, ...]
    private: int
    entry: str


WORDS = MappingProxyType(
    {
        NVIDIA: GpuWords(
            "call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
            "call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
            ("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)",),
            0,
            """define ptx_kernel void @{name}(ptr byval([{words} x i64]) align 8 %args)
    nounwind "nvvm.maxntid"="{threads}" "nvvm.minctasm"="1" {{""",
        ),
        # Denormals are numbers, as on processors; no arguments are hidden behind the kernel's own.
        AMD: GpuWords(
            "call i32 @llvm.amdgcn.workitem.id.x()",
            "call i32 @llvm.amdgcn.workgroup.id.x()",
            (
                'fence syncscope("workgroup") release',
                "call void @llvm.amdgcn.s.barrier()",
                'fence syncscope("workgroup") acquire',
            ),
            5,
            """define amdgpu_kernel void @{name}(ptr addrspace(4) byref([{words} x i64]) align 8 %words)
    nounwind "amdgpu-flat-work-group-size"="{threads},{threads}" "uniform-work-group-size"="true"
    "amdgpu-implicitarg-num-bytes"="0" "amdgpu-no-implicitarg-ptr" "denormal-fp-math"="ieee,ieee" {{
  %args = addrspacecast ptr addrspace(4) %words to ptr""",
        ),
    }
)
"""By architecture."""
