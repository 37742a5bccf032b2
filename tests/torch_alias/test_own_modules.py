"""Modules that exist under the alias alone: what they answer, pass through and refuse."""

import collections
import dataclasses
import importlib
import sys
import threading
from types import ModuleType

import numpy as np
import pytest

import rushlight as rl
from rushlight.support import events
from rushlight.torch import passing

ANSWERS = [
    ("backends.cudnn", "is_available", False),
    ("backends.mps", "is_available", False),
    ("cuda", "is_available", False),
    ("cuda", "is_bf16_supported", False),
    ("cuda", "memory_allocated", 0),
    ("cuda", "max_memory_reserved", 0),
    ("cuda", "memory_stats", {}),
    ("cuda", "get_rng_state_all", []),
    ("cuda", "is_current_stream_capturing", False),
    ("cuda", "seed_all", None),
    ("accelerator", "device_count", 0),
    ("distributed", "is_available", True),
    ("jit", "is_scripting", False),
    ("compiler", "is_compiling", False),
    ("_dynamo", "is_compiling", False),
]


@pytest.mark.parametrize(("module", "name", "answer"), ANSWERS, ids=[f"{row[0]}.{row[1]}" for row in ANSWERS])
def test_questions_are_answered(torch: ModuleType, module: str, name: str, answer: object):
    assert getattr(importlib.import_module(f"torch.{module}"), name)() == answer


def test_flags_can_be_set_and_read(torch: ModuleType):
    cudnn = importlib.import_module("torch.backends.cudnn")
    cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cudnn.benchmark and torch.backends.cuda.matmul.allow_tf32
    with cudnn.flags(enabled=False):
        assert torch.version.cuda is None
    assert cudnn.flags(enabled=False)(lambda: 3)() == 3


@pytest.mark.parametrize("name", ["jit.script", "jit.ignore"])
def test_decorators_pass_functions_through_with_one_event(torch: ModuleType, name: str):
    passing.say_passed.cache_clear()
    before = events.count("pass_through")
    module, _, attribute = name.rpartition(".")
    decorator = getattr(importlib.import_module(f"torch.{module}"), attribute)

    def function() -> None: ...

    assert decorator(function) is function and decorator(function) is function
    assert events.count("pass_through") == before + 1


def test_decorators_take_options(torch: ModuleType):
    def function() -> None: ...

    assert torch.jit.ignore(drop=True)(function) is function
    assert torch.compiler.disable()(function).__wrapped__ is function


@pytest.mark.parametrize("call", ["device", "get_rng_state", "set_rng_state", "mem_get_info"])
def test_devices_that_are_not_there_are_refused(torch: ModuleType, call: str):
    arguments = (0,) if call == "device" else (None,) if call == "set_rng_state" else ()
    with pytest.raises(rl.NotSupportedError, match="CUDA"):
        getattr(torch.cuda, call)(*arguments)


def test_modules_of_devices(torch: ModuleType):
    assert torch.get_device_module() is torch.get_device_module("cpu") is torch.cpu
    assert (
        torch.get_device_module(torch.device("cuda", 1)) is torch.cuda
        and not torch.get_device_module("xpu").is_available()
    )


def test_modules_are_whole_before_they_are_imported(torch: ModuleType):
    assert torch.distributions.utils.lazy_property and torch.distributions.utils.euler_constant
    assert torch.nn.modules.batchnorm.SyncBatchNorm is torch.nn.SyncBatchNorm


def test_what_is_mapped_says_so(torch: ModuleType):
    functorch = importlib.import_module("torch._C._functorch")
    seen: list[tuple[bool, bool]] = []

    def function(x: rl.Tensor) -> rl.Tensor:
        seen.append((functorch.is_batchedtensor(x), torch._C._are_functorch_transforms_active()))
        return x * 2

    function(rl.ones(2))
    torch.vmap(function)(rl.ones(2))
    assert seen == [(False, False), (True, True)] and not functorch.is_batchedtensor(3)


def test_checkpoints_recompute(torch: ModuleType):
    checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint
    x = rl.ones(3, requires_grad=True)
    checkpoint(lambda x, scale: (x * scale).square().sum(), x, scale=2.0, use_reentrant=False).backward()
    assert x.grad.tolist() == [8.0, 8.0, 8.0]


@pytest.mark.parametrize("call", ["hub.load", "jit.load"])
def test_what_cannot_be_done_is_an_error(torch: ModuleType, call: str):
    module, _, name = call.rpartition(".")
    with pytest.raises(rl.NotSupportedError, match=f"torch.{call}"):
        getattr(importlib.import_module(f"torch.{module}"), name)("model")


def test_modules_are_not_spread_over_processes(torch: ModuleType):
    with pytest.raises(rl.DistError, match="no default process group"):
        torch.nn.parallel.DistributedDataParallel(rl.nn.Linear(1, 1))
    with pytest.raises(rl.NotSupportedError, match="no data"):
        rl.nn.Linear(1, 1, device="meta").share_memory()


def test_names_that_packages_import(torch: ModuleType):
    assert torch.torch.linspace is rl.linspace
    assert torch.TensorType is not None
    keys = importlib.import_module("torch.nn.modules.module")._IncompatibleKeys
    assert isinstance(rl.nn.Linear(1, 1).load_state_dict({}, strict=False), keys)
    schedulers = importlib.import_module("torch.optim.lr_scheduler")
    assert issubclass(schedulers.StepLR, schedulers._LRScheduler)
    assert torch.serialization.DEFAULT_PROTOCOL == 2
    assert torch.serialization.add_safe_globals is rl.serialization.add_safe_globals


def test_futures_have_their_results_and_errors(torch: ModuleType):
    futures = importlib.import_module("torch.futures")
    first, second = futures.Future(), futures.Future()
    doubled = first.then(lambda done: 2 * done.value())
    everything = futures.collect_all([first, second])
    assert not everything.done() and futures.collect_all([]).value() == []
    with pytest.raises(RuntimeError, match="no result yet"):
        first.value()
    thread = threading.Thread(target=first.set_result, args=(21,))
    thread.start()
    assert doubled.wait() == 42
    thread.join()
    second.set_exception(KeyError("lost"))
    assert everything.wait() == [first, second]
    with pytest.raises(KeyError, match="lost"):
        futures.wait_all([first, second])
    assert first.then(lambda done: done.nothing).done()
    assert futures.Future[rl.Tensor] is not None


def test_loaders_of_packages_are_iterated(torch: ModuleType):
    module = importlib.import_module("torch.utils.data.dataloader")

    class Loader:
        collate_fn = staticmethod(list)
        dataset = [[1], [2], [3]]
        _index_sampler = [[0, 2], [1]]
        _auto_collation = True
        _dataset_kind = module._DatasetKind.Map

    assert list(module._SingleProcessDataLoaderIter(Loader())) == [[[1], [3]], [[2]]]
    Loader._dataset_kind = module._DatasetKind.Iterable
    assert list(module._SingleProcessDataLoaderIter(Loader())) == [[[1], [2]], [[3]]]
    Loader._auto_collation = False
    assert list(module._SingleProcessDataLoaderIter(Loader())) == [[1], [2]]


def test_points_of_sobol(torch: ModuleType):
    module = importlib.import_module("torch.quasirandom")
    engine = module.SobolEngine(3)
    points = [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75], [0.375, 0.375, 0.625]]  # of PyTorch
    assert engine.draw(5).tolist() == points
    assert engine.reset().fast_forward(3).draw().tolist() == points[3:4]
    assert engine.draw_base2(2, dtype=rl.float64).dtype is rl.float64
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(1)
    with pytest.raises(ValueError, match="dimensionality"):
        module.SobolEngine(0)
    out = rl.empty(0)
    first = module.SobolEngine(2, scramble=True, seed=1).draw(4, out=out)
    assert first is out and rl.equal(out, module.SobolEngine(2, scramble=True, seed=1).draw(4))
    assert repr(module.SobolEngine(2, scramble=True, seed=1)) == "SobolEngine(dimension=2, scramble=True, seed=1)"


def test_dtypes_without_tensors_are_compared(torch: ModuleType):
    assert torch.float32 not in (torch.complex32, torch.chalf, torch.float4_e2m1fn_x2)
    assert torch.complex32.is_complex and torch.complex32.itemsize == 4
    with pytest.raises(rl.RushlightError) as caught:
        torch.zeros(2, dtype=torch.complex32)
    assert caught.value.code == "A006"


def test_tensors_are_parts_of_a_vector(torch: ModuleType):
    module = importlib.import_module("torch._utils")
    tensors = [rl.arange(6).reshape(2, 3).t(), rl.tensor(7), rl.ones(0, 2, dtype=rl.int64)]
    flat = module._flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 3, 1, 4, 2, 5, 7]
    parts = module._unflatten_dense_tensors(flat, tensors)
    assert all(rl.equal(part, tensor) for part, tensor in zip(parts, tensors, strict=True))


def test_loaded_names_are_in_the_dict(torch: ModuleType):
    module = importlib.import_module("torch.distributions")
    assert vars(module)["Normal"] is rl.distributions.Normal


def test_tensors_are_grouped_by_dtype(torch: ModuleType):
    group = importlib.import_module("torch.utils._foreach_utils")._group_tensors_by_device_and_dtype
    a, b, c = rl.ones(1), rl.ones(1, dtype=rl.int64), rl.ones(2)
    found = group([[a, b, c], [None, b, a]], with_indices=True)
    assert [(key[1], places) for key, (_, places) in found.items()] == [(rl.float32, [0, 2]), (rl.int64, [1])]
    assert found[a.device, rl.float32][0] == [[a, c], [None, a]]


def test_types_of_operators_of_native_code_are_taken(torch: ModuleType):
    def types(boxes): ...

    assert torch.library.register_fake("vision::absent")(types) is types
    assert torch.library.register_fake("vision::absent", types) is types
    with pytest.raises(rl.RushlightError):
        rl.library.register_fake("vision::absent")


def test_tensorboard_is_that_of_another_package(torch: ModuleType, monkeypatch: pytest.MonkeyPatch):
    package = ModuleType("tensorboardX")

    class Writer:
        def __init__(self) -> None:
            self.written: list[object] = []

        def add_scalar(self, *values: object, **named: object) -> None:
            self.written.append((values, named))

    package.SummaryWriter = Writer
    module = importlib.import_module("torch.utils.tensorboard")
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match="tensorboardX is not") as caught:
        module.SummaryWriter  # noqa: B018 - to ask is what fails
    assert "rushlight[tensorboard]" in str(caught.value)
    monkeypatch.setitem(sys.modules, "tensorboardX", package)
    writer = module.SummaryWriter()
    assert isinstance(writer, Writer)
    writer.add_scalar("loss", rl.ones((), requires_grad=True), global_step=rl.tensor(3))
    (((tag, value), named),) = writer.written
    assert (tag, type(value), type(named["global_step"])) == ("loss", np.ndarray, np.ndarray)
    assert (value, named["global_step"]) == (1, 3)


def test_trees_and_devices(torch: ModuleType):
    pytree = importlib.import_module("torch.utils._pytree")
    leaves, structure = pytree.tree_flatten({"a": [1, (2, 3)]})
    assert pytree.tree_unflatten([2 * leaf for leaf in leaves], structure) == {"a": [2, (4, 6)]}
    assert pytree.tree_map_only(int, lambda n: -n, [1, "x"]) == [-1, "x"]
    assert torch.get_default_device() == rl.device("cpu")
    assert torch.typename(rl.ones(1)) == "torch.FloatTensor"
    with pytest.raises(rl.DeviceError):
        torch.set_default_device("cuda")
    assert list(torch.nn.DataParallel(rl.nn.Linear(1, 1)).state_dict()) == ["module.weight", "module.bias"]


def test_registered_classes_are_taken_apart(torch: ModuleType):
    pytree = importlib.import_module("torch.utils._pytree")

    class Pair:
        def __init__(self, first: object, second: object) -> None:
            self.first, self.second = first, second

    def parts(pair: Pair) -> tuple[list[object], str]:
        return [pair.first, pair.second], "pair"

    assert pytree.tree_is_leaf(Pair(1, 2))
    pytree.register_pytree_node(Pair, parts, lambda children, context: Pair(*children), serialized_type_name="pair")
    try:
        leaves, structure = pytree.tree_flatten([Pair(1, {"a": 2}), 3])
        assert leaves == [1, 2, 3] and structure.num_leaves == 3 and structure.child(0).context == "pair"
        assert structure == pytree.tree_structure([Pair(4, {"a": 5}), 6])
        assert structure != pytree.tree_structure([Pair(4, {"b": 5}), 6])
        assert pytree.tree_unflatten([7, 8, 9], structure)[0].second == {"a": 8}
        doubled = torch.func.vmap(lambda pair: Pair(pair.first * 2, pair.second))(Pair(rl.ones(3), rl.zeros(3)))
        assert doubled.first.tolist() == [2, 2, 2] and doubled.second.tolist() == [0, 0, 0]
        with pytest.raises(rl.ArgumentValueError):
            pytree.register_pytree_node(Pair, parts, lambda children, context: Pair(*children))
        with pytest.raises(rl.ArgumentValueError):
            pytree.tree_unflatten([1], structure)
    finally:
        del pytree.SUPPORTED_NODES[Pair]


def test_structures_are_made_of_node_types(torch: ModuleType):
    """As packages do that take trees apart by themselves."""
    pytree = importlib.import_module("torch.utils._pytree")
    point = collections.namedtuple("point", "x y")
    trees = [
        (1, [2]),
        {"b": 1, "a": (2, 3)},
        point(1, 2),
        collections.OrderedDict(z=1),
        collections.deque([1, 2], 4),
        collections.defaultdict(list, a=1),
    ]
    for tree in trees:
        kind = pytree._get_node_type(tree)
        children, context = pytree.SUPPORTED_NODES[kind].flatten_fn(tree)
        flat = [pytree.tree_flatten(child) for child in children]
        structure = pytree.TreeSpec(kind, context, [child for _, child in flat])
        assert structure == pytree.tree_structure(tree) and isinstance(structure, pytree.TreeSpec)
        assert structure.num_children == len(flat)
        again = pytree.tree_unflatten([leaf for leaves, _ in flat for leaf in leaves], structure)
        assert again == tree and type(again) is type(tree)
    assert pytree.tree_structure(5) == pytree.LeafSpec() and pytree.LeafSpec().is_leaf()
    assert pytree.tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]
    with pytest.raises(rl.ArgumentValueError):
        pytree.tree_map(lambda a, b: a, [1], [1, 2])


def test_what_trainers_ask_for_when_they_are_made(torch: ModuleType):
    assert torch.ScriptModule is torch.jit.ScriptModule and not torch.profiler.kineto_available()
    device, dtype, blocking, order = torch._C._nn._parse_to("cpu", torch.float64, non_blocking=True)
    assert (device, dtype, blocking, order) == (torch.device("cpu"), torch.float64, True, None)
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    assert counter.get_total_flops() == 0 and counter.get_flop_counts() == {}
    assert torch.utils.data.DataLoader([1, 2]).multiprocessing_context is None
    assert not dataclasses.is_dataclass(torch.device("cpu"))  # what walks over dataclasses leaves a device whole


def test_operators_of_programs_are_called_and_differentiated(torch: ModuleType):
    library = importlib.import_module("torch.library")

    @library.custom_op("mine::double", mutates_args=())
    def double(x: rl.Tensor) -> rl.Tensor:
        return x.detach() * 2

    library.register_fake("mine::double", lambda x: x)
    library.register_autograd("mine::double", lambda ctx, g: g * 2, setup_context=lambda ctx, inputs, output: None)
    x = rl.ones(3, requires_grad=True)
    torch.ops.mine.double.default(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    compiled = rl.compile(lambda x: torch.ops.mine.double(x) + 1)
    assert compiled(rl.ones(2)).tolist() == [3.0, 3.0]

    lib = library.Library("mine", "FRAGMENT")
    lib.define("triple(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="no kernel is registered"):
        torch.ops.mine.triple(x)
    lib.impl("triple", lambda x: x * 4, "CUDA")
    lib.impl("triple", lambda x: x * 3, "CPU")
    assert torch.ops.mine.triple(rl.ones(1)).item() == 3.0
    lib._destroy()
    double.remove()
    with pytest.raises(rl.MissingNameError, match="nothing registered it"):
        _ = torch.ops.mine.quadruple
    assert torch.ops.aten.add.Tensor(rl.ones(1), 1).item() == 2.0
    assert not hasattr(torch.ops.mine, "__wrapped__")


def test_native_libraries_are_an_error_of_the_system(torch: ModuleType):
    with pytest.raises(OSError, match="native code for PyTorch") as problem:
        torch.ops.load_library("_C.so")
    assert problem.value.code == "N003"


NAMED = [
    ("_C", "DispatchKeySet"),
    ("_dynamo.exc", "Unsupported"),
    ("ao.quantization", "QuantStub"),
    ("fx.node", "Target"),
    ("futures", "Future"),
    ("nn.attention.flex_attention", "BlockMask"),
    ("nn.attention.flex_attention", "_DEFAULT_SPARSE_BLOCK_SIZE"),
    ("nn.init", "_calculate_fan_in_and_fan_out"),
    ("nn.modules.utils", "_pair"),
    ("onnx.symbolic_helper", "parse_args"),
    ("utils.data.datapipes.iter", "Batcher"),
    ("cuda", "Stream"),
]


@pytest.mark.parametrize(("module", "name"), NAMED, ids=[".".join(row) for row in NAMED])
def test_names_of_internals_exist(torch: ModuleType, module: str, name: str):
    assert getattr(importlib.import_module(f"torch.{module}"), name) is not None


@pytest.mark.parametrize("name", ["ao.quantization.QuantStub", "cuda.Stream"])
def test_named_classes_cannot_be_made(torch: ModuleType, name: str):
    module, _, attribute = name.rpartition(".")
    with pytest.raises(rl.NotSupportedError, match=name):
        getattr(importlib.import_module(f"torch.{module}"), attribute)()


def test_powers_of_two_have_limits_and_no_tensors(torch: ModuleType):
    assert torch.finfo(torch.float8_e4m3fn).max == 448.0
    assert rl.ones(2).to(torch.float8_e4m3fn).tolist() == [1, 1]
    with pytest.raises(rl.NotSupportedError):
        rl.zeros(2, dtype=torch.float8_e8m0fnu)


def test_objects_with_a_torch_function_are_asked(torch: ModuleType):
    overrides = importlib.import_module("torch.overrides")

    class Answers:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented if cls is Answers else (func.__name__, types)

    class First(Answers): ...

    def function(x, y):
        return overrides.handle_torch_function(function, (x, y), x, y)

    assert overrides.has_torch_function((rl.ones(1), First())) and not overrides.has_torch_function((rl.ones(1), 2))
    assert function(Answers(), First()) == ("function", (First, Answers))
    with pytest.raises(TypeError, match="no implementation"):
        function(Answers(), Answers())
    assert overrides.resolve_name(torch.add) == "torch.add"
    assert overrides.get_testing_overrides()[torch.add](1, 2) == -1
    with overrides.TorchFunctionMode():
        assert (rl.ones(1) + 1).item() == 2


def test_modes_and_subclasses_stand_under_the_names_of_torch(torch: ModuleType):
    dispatch, trees = (
        importlib.import_module("torch.utils._python_dispatch"),
        importlib.import_module("torch.utils._pytree"),
    )

    class Scaled(torch.Tensor):
        @staticmethod
        def __new__(cls, inner, scale):
            self = torch.Tensor._make_wrapper_subclass(cls, inner.size(), strides=inner.stride(), dtype=inner.dtype)
            self.inner, self.scale = inner, scale
            return self

        def __tensor_flatten__(self):
            return ["inner"], self.scale

        @staticmethod
        def __tensor_unflatten__(inner, scale, size, stride):
            return Scaled(inner["inner"], scale)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = trees.tree_map_only(cls, lambda one: one.inner * one.scale, (args, kwargs or {}))
            return dispatch.return_and_correct_aliasing(func, args, kwargs, func(*plain[0], **plain[1]))

    class Names(dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    x = Scaled(torch.ones(2), 3)
    with Names() as mode:
        assert dispatch._get_current_dispatch_mode() is mode
        assert (x + 1).tolist() == [4, 4]
        with dispatch._disable_current_modes() as modes:
            assert modes == [mode] and (x - 1).tolist() == [2, 2]
    assert names[0] == "add" and "sub" not in names
    assert dispatch._get_current_dispatch_mode() is None
    assert dispatch.is_traceable_wrapper_subclass(x) and not dispatch.is_traceable_wrapper_subclass(torch.ones(2))
    assert not dispatch.is_traceable_wrapper_subclass_type(torch.nn.Parameter)
    halved = dispatch.transform_subclass(x, lambda name, inner: inner / 2)
    assert type(halved) is Scaled and halved.inner.tolist() == [0.5, 0.5] and halved.scale == 3


def test_named_results_have_their_types(torch: ModuleType):
    types = importlib.import_module("torch.return_types")
    x = torch.ones(2, 2)
    assert isinstance(x.max(0), types.max) and isinstance(x.sort(), types.sort)
    assert isinstance(torch.linalg.qr(x), types.linalg_qr) and isinstance(x.aminmax(), types.aminmax)


def test_programs_ask_whether_they_are_traced(torch: ModuleType):
    def branch(x):
        return x + 1 if torch.compiler.is_compiling() else x + 2

    assert rl.compiler.is_compiling() is False
    assert branch(rl.zeros(1)).item() == 2.0
    assert rl.compile(branch)(rl.zeros(1)).item() == 1.0
    assert rl.compiler.is_compiling() is False


def test_compiled_autograd_is_turned_on_as_in_torch(torch):
    compiled_autograd = torch._dynamo.compiled_autograd
    w = torch.ones(3, requires_grad=True)
    compiled_autograd.reset()
    torch._dynamo.config.compiled_autograd = True
    try:
        (w * 2).sum().backward()
        with torch._dynamo.config.patch(compiled_autograd=False):
            assert not compiled_autograd.is_enabled()
        with compiled_autograd._disable():
            assert not compiled_autograd.is_enabled()
    finally:
        torch._dynamo.config.compiled_autograd = False
    assert compiled_autograd.program_count() == 1
    with compiled_autograd._enable(lambda program: torch.compile(program, backend="eager")):
        (w * 2).sum().backward()
    assert compiled_autograd.program_count() == 2
    assert w.grad.tolist() == [4.0, 4.0, 4.0]
    assert torch._dynamo.callback.CallbackTrigger.COMPILED_AUTOGRAD.name == "COMPILED_AUTOGRAD"


def test_backends_of_other_packages_find_what_they_import(torch: ModuleType):
    aot = importlib.import_module("torch._functorch.aot_autograd")
    assert aot.aot_module_simplified is importlib.import_module("torch._dynamo.backends.common").aot_module_simplified
    assert importlib.import_module("torch._functorch.partitioners").min_cut_rematerialization_partition
    assert importlib.import_module("torch._functorch.compilers").nop is aot.nop
    registry = importlib.import_module("torch._dynamo.backends.registry")
    assert registry.lookup_backend("eager")
    assert importlib.import_module("torch.profiler").profile is rl.profiler.profile


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6, 7])
@pytest.mark.parametrize("mode", ["pointwise", "generic"])
@pytest.mark.parametrize("reverse", [False, True])
def test_an_associative_scan_gives_all_prefixes(torch: ModuleType, count: int, mode: str, reverse: bool):
    scan = importlib.import_module("torch._higher_order_ops.associative_scan").associative_scan
    rng = np.random.default_rng(count)
    decay, step = (rl.from_numpy(rng.uniform(0.5, 1.5, (2, count, 3))).requires_grad_() for _ in range(2))

    def combine(left: dict[str, rl.Tensor], right: dict[str, rl.Tensor]) -> dict[str, rl.Tensor]:
        return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

    found = scan(combine, {"a": decay, "b": step}, 1, reverse=reverse, combine_mode=mode)
    factors, steps = decay.detach().numpy(), step.detach().numpy()
    if reverse:
        factors, steps = factors[:, ::-1], steps[:, ::-1]
    state, expected = np.zeros((2, 3)), np.zeros((2, count, 3))
    for at in range(count):
        state = factors[:, at] * state + steps[:, at]
        expected[:, at] = state
    np.testing.assert_allclose(found["b"].detach().numpy(), expected[:, ::-1] if reverse else expected, rtol=1e-12)
    np.testing.assert_allclose(
        found["a"].detach().numpy(), np.cumprod(factors, 1)[:, :: -1 if reverse else 1], rtol=1e-12
    )
    if count:
        found["b"].sum().backward()
        assert step.grad is not None and (decay.grad is not None) == (count > 1)
        last = step.grad[:, 0 if not reverse else -1].numpy()
        products = np.concatenate([np.ones((2, 1, 3)), np.cumprod(factors[:, 1:], 1)], 1).sum(1)
        np.testing.assert_allclose(last, products, rtol=1e-12)


def test_an_associative_scan_refuses_modes_and_empty_trees(torch: ModuleType):
    scan = importlib.import_module("torch._higher_order_ops.associative_scan").associative_scan
    with pytest.raises(rl.ArgumentError, match="combine_mode"):
        scan(lambda a, b: a + b, rl.ones(3), 0, combine_mode="fast")
    with pytest.raises(rl.ArgumentError, match="no tensors"):
        scan(lambda a, b: a, [], 0)


@pytest.mark.parametrize("name", ["cond", "map", "scan", "while_loop"])
def test_control_flow_has_modules_of_its_names(torch: ModuleType, name: str):
    module = importlib.import_module(f"torch._higher_order_ops.{name}")
    assert getattr(module, name) is getattr(rl, name)
    assert getattr(importlib.import_module("torch._higher_order_ops"), name) is getattr(rl, name)


def test_names_that_trainers_and_pipelines_ask_for(torch: ModuleType):
    pytree = importlib.import_module("torch.utils._pytree")
    values, keys = pytree._dict_flatten({"a": 1, "b": 2})
    assert (values, keys, pytree._dict_unflatten([3, 4], keys)) == ([1, 2], ["a", "b"], {"a": 3, "b": 4})
    assert not isinstance(torch.nn.Linear(1, 1), torch._dynamo.eval_frame.OptimizedModule)
    assert not isinstance(3, torch.Stream)
    fake = importlib.import_module("torch._subclasses")
    assert not isinstance(rl.ones(1), (fake.FakeTensor, fake.FakeTensorMode))
