"""Causes of the errors of devices that packages bring."""

import importlib
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

import plugins
import rushlight as rl
from errorcases import triggers
from fake_driver import ILLEGAL_ADDRESS, FakeDriver
from rushlight.codegen.llvm.kernel import loops
from rushlight.runtime import backend as backends


@contextmanager
def _installed(name: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, plugins.installed(Path(folder), plugins.EXAMPLES / name):
        yield


flint, mica = partial(_installed, "flint"), partial(_installed, "mica")


@triggers("V004")
def memory_is_a_device_s():
    with flint():
        np.asarray(rl.ones(3, device="flint"))


@triggers("V005")
def a_device_leaves_an_operator_to_the_cpu_under_strict():
    with flint():
        x = rl.ones(3, device="flint")
        with rl.strict():
            x.exp()


@triggers("V007")
def a_device_leaves_an_operator_to_the_cpu():
    with flint():
        x = rl.ones(3, device="flint")
        x.exp()


def _asked_for(load: Callable[[], object]) -> object:
    """Ask for a device whose entry point loads in this way."""
    point = types.SimpleNamespace(name="slate", value="slate:Slate", load=load)
    known = backends._known
    before = dict(known)
    known.clear()
    known[tuple(sys.path)] = {"slate": point}
    try:
        return rl.ones(3, device="slate")
    finally:
        known.clear()
        known.update(before)


@triggers("V006")
def a_plug_in_cannot_be_imported():
    def load() -> object:
        raise ImportError("no module named slate")

    _asked_for(load)


@triggers("V006", "name")
def a_plug_in_gives_something_else():
    _asked_for(lambda: lambda: 3)


@triggers("V008")
def a_thread_of_an_emulated_gpu_races():
    with tempfile.TemporaryDirectory() as folder, plugins.installed(Path(folder), plugins.EXAMPLES / "simt"):
        simt = importlib.import_module("simt.backend")
        barrier, key = loops.emit_barrier, simt.Grids.key
        loops.emit_barrier = lambda ctx, scope: None
        simt.Grids.key = lambda self, graph: None  # such code is not cached
        try:
            rl.ones(3, 70, device="simt").softmax(-1)
        finally:
            loops.emit_barrier, simt.Grids.key = barrier, key


@contextmanager
def cuda_package() -> Iterator[types.ModuleType]:
    source = str(plugins.EXAMPLES.parent / "packages" / "rushlight-cuda" / "src")
    sys.path.insert(0, source)
    try:
        yield importlib.import_module("rushlight_cuda")
    finally:
        sys.path.remove(source)
        for name in [name for name in sys.modules if name.partition(".")[0] == "rushlight_cuda"]:
            del sys.modules[name]


@triggers("V009")
def a_driver_is_not_installed():
    with cuda_package() as package:
        package.Driver(("libcuda-of-nobody.so",))


@triggers("V010")
def a_driver_refuses_a_call():
    with tempfile.TemporaryDirectory() as folder, cuda_package() as package:
        driver = FakeDriver(Path(folder))
        driver.failing["cuMemAlloc_v2"] = ILLEGAL_ADDRESS
        package.Driver((str(driver.path),)).allocate(64)


@triggers("A006", "device-graphs")
def a_device_compiles_no_graphs():
    with flint():
        rl.compile(lambda x: x.exp(), fullgraph=True)(rl.ones(3, device="flint"))


@triggers("V002", "graph")
def a_graph_is_on_two_devices():
    with mica():
        compiled = rl.compile(lambda x, y: (x + 1, y + 1), fullgraph=True)
        compiled(rl.ones(3), rl.ones(3, device="mica"))
