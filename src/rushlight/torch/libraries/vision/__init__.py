"""The operators of torchvision: boxes that overlap, pools over regions of images, deformable convolutions.

Meaning and names are those of torchvision's library for the CPU. Pools and convolutions are compositions of operators,
so compilation and derivatives follow from these; `torchvision::nms` runs on the host. The operators for quantized
tensors are defined, and refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from rushlight.library import Library
from rushlight.torch.libraries.vision import boxes, deformable, regions
from rushlight.torch.passing import refuse

_LIBRARY = Library("torchvision", "DEF")
_POOL = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_OF_POOL = "Tensor grad, Tensor rois, {}float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)


def _quantized(name: str) -> Callable[..., NoReturn]:
    def refused(*args: object) -> NoReturn:
        refuse(f"torch.ops.torchvision.{name}", "quantized boxes and images have no kernels here")

    return refused


_COMPOSITIONS: dict[str, tuple[str, Callable[..., object]]] = {
    "roi_align": (f"({_POOL}, int sampling_ratio, bool aligned) -> Tensor", regions.roi_align),
    "_roi_align_backward": (
        f"({_OF_POOL.format('')}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor",
        regions.roi_align_backward,
    ),
    "roi_pool": (f"({_POOL}) -> (Tensor, Tensor)", regions.roi_pool),
    "_roi_pool_backward": (f"({_OF_POOL.format('Tensor argmax, ')}, {_SIZES}) -> Tensor", regions.roi_pool_backward),
    "ps_roi_align": (f"({_POOL}, int sampling_ratio) -> (Tensor, Tensor)", regions.ps_roi_align),
    "_ps_roi_align_backward": (
        f"({_OF_POOL.format('Tensor channel_mapping, ')}, int sampling_ratio, {_SIZES}) -> Tensor",
        regions.ps_roi_align_backward,
    ),
    "ps_roi_pool": (f"({_POOL}) -> (Tensor, Tensor)", regions.ps_roi_pool),
    "_ps_roi_pool_backward": (
        f"({_OF_POOL.format('Tensor channel_mapping, ')}, {_SIZES}) -> Tensor",
        regions.ps_roi_pool_backward,
    ),
    "deform_conv2d": (f"({_CONVOLUTION}) -> Tensor", deformable.deform_conv2d),
    "_deform_conv2d_backward": (
        f"(Tensor grad, {_CONVOLUTION}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        deformable.deform_conv2d_backward,
    ),
    "qnms": ("(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", _quantized("qnms")),
    "qroi_align": (
        "(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, "
        "float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
        _quantized("qroi_align"),
    ),
}

for _name, (_schema, _function) in _COMPOSITIONS.items():
    _LIBRARY.define(_name + _schema)
    _LIBRARY.impl(_name, _function, "CompositeImplicitAutograd")
_LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_LIBRARY.impl("nms", boxes.nms, "CPU")
