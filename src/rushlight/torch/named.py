"""Names of PyTorch's internals that packages import, by their module's path below `torch`.

Each is a class: annotations, `isinstance` and base classes may name it. Making an object of it is error A006.
"""

from __future__ import annotations

import functools

from rushlight.torch.passing import refuse
from rushlight.torch.submodule import Submodule

__all__ = ["NAMED", "named_only"]

_NOT_HERE = "the name exists so that programs which do not use it can be imported"

NAMED: dict[str, tuple[str, ...]] = {
    "": ("PyTorchFileReader", "Stream", "TensorType"),
    "_C._distributed_rpc": (),
    "_dynamo.backends": (),
    "_dynamo.utils": ("is_compile_supported",),
    "_functorch": (),
    "autograd.functional": ("hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"),
    "autograd.graph": ("Node", "save_on_cpu", "saved_tensors_hooks"),
    "autograd.profiler": ("emit_nvtx",),
    "ao": (),
    "ao.quantization": ("DeQuantStub", "QuantStub"),
    "_subclasses.fake_tensor": ("FakeTensor", "FakeTensorMode"),
    "distributed._composable": (),
    "distributed.checkpoint._consolidate_hf_safetensors": ("consolidate_safetensors_files",),
    "distributed.nn": (),
    "distributed.nn.functional": ("all_gather", "all_reduce", "reduce_scatter"),
    "distributed.rpc": ("RRef",),
    "distributed.tensor.placement_types": ("_StridedShard",),
    "distributed.tensor._utils": ("compute_local_shape_and_global_offset",),
    "nn.parallel.scatter_gather": ("gather", "scatter", "scatter_kwargs"),
    "nn.utils.fusion": ("fuse_conv_bn_eval",),
    "onnx": (),
    "onnx.symbolic_opset11": ("select", "squeeze", "unsqueeze"),
    "utils.data.dataloader": (
        "_BaseDataLoaderIter",
        "_MultiProcessingDataLoaderIter",
    ),
    "utils.data.datapipes": (),
    "utils.data.datapipes.iter": ("Batcher", "IterableWrapper"),
}


class _Unsupported:
    """A class that a name stands for."""

    path = ""

    def __class_getitem__(cls, item: object) -> type:
        """Return the class, whatever an annotation puts in brackets."""
        return cls

    def __init__(self, *args: object, **options: object) -> None:
        refuse(self.path, _NOT_HERE)


@functools.cache
def named_only(path: str) -> Submodule | None:
    """Return the module of names at a path below `torch`, if the table has it."""
    names = NAMED.get(path)
    if names is None:
        return None
    return Submodule(
        "Names of PyTorch's internals.",
        **{name: type(name, (_Unsupported,), {"path": f"torch.{path}.{name}"}) for name in names},
    )
