"""Rushlight: a tensor framework and compiler with PyTorch's API, in Python alone, on LLVM."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from rushlight.compat import cuda
from rushlight.compat import errors as _errors
from rushlight.compat import layouts as _layouts
from rushlight.compat import modes as _modes
from rushlight.compat import operators as _operators
from rushlight.compat.creation import arange, empty, eye, full, linspace, ones, rand, randint, randn, randperm, zeros
from rushlight.compat.elsewhere import ELSEWHERE as _ELSEWHERE
from rushlight.compat.errors import *  # noqa: F403 - a module whose names are written out
from rushlight.compat.functions import (
    absolute,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    argsort,
    argwhere,
    atleast_1d,
    atleast_2d,
    bernoulli,
    bincount,
    broadcast_shapes,
    broadcast_tensors,
    clip,
    clone,
    concatenate,
    divide,
    einsum,
    fix,
    gather,
    greater,
    greater_equal,
    hstack,
    index_put,
    index_put_,
    kthvalue,
    less,
    less_equal,
    masked_select,
    max,
    median,
    meshgrid,
    min,
    moveaxis,
    msort,
    multinomial,
    multiply,
    negative,
    nonzero,
    not_equal,
    repeat_interleave,
    row_stack,
    sort,
    std,
    subtract,
    topk,
    true_divide,
    unique,
    var,
    var_mean,
    vstack,
    where,
)
from rushlight.compat.layouts import *  # noqa: F403 - a module whose names are written out
from rushlight.compat.limits import finfo, iinfo
from rushlight.compat.modes import *  # noqa: F403 - a module whose names are written out
from rushlight.compat.operators import *  # noqa: F403 - a generated module whose names are written out
from rushlight.compat.queries import (
    allclose,
    can_cast,
    is_complex,
    is_floating_point,
    is_storage,
    is_tensor,
    numel,
    promote_types,
    typename,
)
from rushlight.eager.arguments import default_dtype as get_default_dtype
from rushlight.eager.arguments import get_default_device, set_default_device, set_default_dtype
from rushlight.eager.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.eager.composite.sequences import standard_gamma as _gamma_numbers
from rushlight.eager.control import cond, map, scan, while_loop
from rushlight.eager.creation import (
    as_tensor,
    asarray,
    empty_like,
    from_numpy,
    frombuffer,
    full_like,
    ones_like,
    scalar_tensor,
    tensor,
    zeros_like,
)
from rushlight.eager.legacy import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    set_default_tensor_type,
)
from rushlight.eager.printing.text import set_printoptions
from rushlight.eager.random import (
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    normal,
    rand_like,
    randn_like,
    seed,
    set_rng_state,
)
from rushlight.eager.symbols import (
    SymBool,
    SymFloat,
    SymInt,
    check,
    sym_float,
    sym_int,
    sym_max,
    sym_min,
    sym_not,
)
from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import Size
from rushlight.ir.dtype import DType as _DType
from rushlight.ir.dtype import (
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from rushlight.ir.dtype import bool_ as bool
from rushlight.ir.dtype import complex64 as cfloat
from rushlight.ir.dtype import complex128 as cdouble
from rushlight.ir.dtype import float16 as half
from rushlight.ir.dtype import float32 as float
from rushlight.ir.dtype import float64 as double
from rushlight.ir.dtype import int16 as short
from rushlight.ir.dtype import int32 as int
from rushlight.ir.dtype import int64 as long
from rushlight.ir.type import Device as _Device
from rushlight.runtime.generator import Generator, default_generator
from rushlight.runtime.pool import get_num_threads, set_num_threads
from rushlight.support.peer_names import absent_name as _absent_name

__version__ = "0.1.0"

dtype = _DType
device = _Device

pi = 3.141592653589793
e = 2.718281828459045
inf = 1e999
nan = inf - inf
newaxis = None
_check, _standard_gamma = check, _gamma_numbers  # as PyTorch has them

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "GradScaler",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "Size",
    "SymBool",
    "SymFloat",
    "SymInt",
    "Tensor",
    "__version__",
    "absolute",
    "allclose",
    "amp",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argsort",
    "argwhere",
    "as_tensor",
    "asarray",
    "atleast_1d",
    "atleast_2d",
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "autograd",
    "backends",
    "bernoulli",
    "bfloat16",
    "bincount",
    "bool",
    "broadcast_shapes",
    "broadcast_tensors",
    "can_cast",
    "cdouble",
    "cfloat",
    "check",
    "clear_autocast_cache",
    "clip",
    "clone",
    "compile",
    "compiler",
    "complex64",
    "complex128",
    "concatenate",
    "cond",
    "cuda",
    "default_generator",
    "device",
    "distributed",
    "distributions",
    "divide",
    "double",
    "dsmm",
    "dtype",
    "e",
    "einsum",
    "empty",
    "empty_like",
    "enable_grad",
    "export",
    "eye",
    "fft",
    "finfo",
    "fix",
    "float",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float16",
    "float32",
    "float64",
    "fork_rng",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "func",
    "fx",
    "gather",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "get_default_device",
    "get_default_dtype",
    "get_num_threads",
    "get_rng_state",
    "greater",
    "greater_equal",
    "half",
    "hstack",
    "iinfo",
    "index_put",
    "index_put_",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_storage",
    "is_tensor",
    "kthvalue",
    "less",
    "less_equal",
    "library",
    "linalg",
    "linspace",
    "load",
    "long",
    "manual_seed",
    "map",
    "masked",
    "masked_select",
    "max",
    "median",
    "meshgrid",
    "min",
    "moveaxis",
    "msort",
    "multinomial",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "nn",
    "no_grad",
    "nonzero",
    "normal",
    "not_equal",
    "numel",
    "ones",
    "ones_like",
    "optim",
    "overrides",
    "pi",
    "profiler",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "recsys",
    "repeat_interleave",
    "row_stack",
    "save",
    "scalar_tensor",
    "scan",
    "seed",
    "serialization",
    "set_anomaly_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_autocast_gpu_dtype",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "shapes",
    "short",
    "signal",
    "sort",
    "sparse",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "special",
    "spmm",
    "std",
    "subtract",
    "sym_float",
    "sym_int",
    "sym_max",
    "sym_min",
    "sym_not",
    "tensor",
    "testing",
    "topk",
    "true_divide",
    "typename",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique",
    "utils",
    "var",
    "var_mean",
    "vmap",
    "vstack",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]
__all__ += _operators.__all__
__all__ += _layouts.__all__
__all__ += _errors.__all__
__all__ += _modes.__all__

if _TYPE_CHECKING:
    from rushlight import (
        amp,
        autograd,
        backends,
        compiler,
        distributed,
        distributions,
        export,
        fft,
        func,
        fx,
        library,
        linalg,
        masked,
        nn,
        optim,
        overrides,
        profiler,
        random,
        recsys,
        serialization,
        shapes,
        signal,
        sparse,
        special,
        testing,
        utils,
    )
    from rushlight.amp import GradScaler
    from rushlight.amp.autocast_mode import (
        autocast,
        autocast_decrement_nesting,
        autocast_increment_nesting,
        clear_autocast_cache,
        get_autocast_cpu_dtype,
        get_autocast_dtype,
        get_autocast_gpu_dtype,
        is_autocast_cache_enabled,
        is_autocast_cpu_enabled,
        is_autocast_enabled,
        set_autocast_cache_enabled,
        set_autocast_cpu_dtype,
        set_autocast_cpu_enabled,
        set_autocast_dtype,
        set_autocast_enabled,
        set_autocast_gpu_dtype,
    )
    from rushlight.autograd.anomaly_mode import (
        is_anomaly_check_nan_enabled,
        is_anomaly_enabled,
        set_anomaly_enabled,
    )
    from rushlight.capture import compile
    from rushlight.compat.layers import *  # noqa: F403 - a module whose names are written out
    from rushlight.data import load, save
    from rushlight.eager.sparse.making import (
        sparse_compressed_tensor,
        sparse_coo_tensor,
        sparse_csc_tensor,
        sparse_csr_tensor,
    )
    from rushlight.func import vmap
    from rushlight.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
    from rushlight.sparse import dsmm, spmm

# Loaded when first asked for, so that `import rushlight` is fast.
_MODULES = (
    "amp",
    "autograd",
    "backends",
    "compiler",
    "distributed",
    "distributions",
    "export",
    "fft",
    "func",
    "fx",
    "library",
    "linalg",
    "masked",
    "nn",
    "onnx",
    "optim",
    "overrides",
    "profiler",
    "random",
    "recsys",
    "serialization",
    "shapes",
    "signal",
    "sparse",
    "special",
    "testing",
    "tile",
    "utils",
)
del tile  # noqa: F821 - the function is the module of that name, which can be called


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"rushlight.{name}")
    if name in _ELSEWHERE:
        return getattr(_import_module(_ELSEWHERE[name]), name)
    raise _absent_name(__name__, name, (*__all__, *_MODULES, *_ELSEWHERE))


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_ELSEWHERE})
