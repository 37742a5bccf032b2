"""Objects for AMD's GPUs: kernels of a model with descriptors, argument sizes and no spills; no such GPU runs them."""

from collections.abc import Callable

import pytest

import rushlight as rl
from rushlight.build.gpu import AMD_FEATURES
from rushlight.export import Dim, amdgpu, export
from rushlight.runtime.elf import FLAG_EXECUTE, MACHINE_AMDGPU, ElfObject
from rushlight.support.errors import RushlightError
from tools.amdgpu_metadata import kernels_of

F = rl.nn.functional


class Block(rl.nn.Module):
    """A layer of a transformer: products, a softmax of rows, a norm and pointwise calls."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = rl.nn.LayerNorm(32)
        self.qkv, self.out = rl.nn.Linear(32, 96), rl.nn.Linear(32, 32)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        query, key, value = self.qkv(self.norm(x)).split(32, -1)
        weights = (query @ key.mT / 6).softmax(-1)
        return F.gelu(self.out(weights @ value)) + x


FUNCTIONS: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "pointwise": lambda x: x * 2 + x.exp().sin(),
    "sum": lambda x: x.sum(),
    "columns": lambda x: x.sum(0),
    "softmax": lambda x: x.softmax(-1),
    "double": lambda x: x.double().softmax(-1).var(-1),
    "half": lambda x: (x.half() @ x.half().mT).softmax(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "gather": lambda x: x.flip(0)[(x[:, 0] > 0).long()],
    "sort": lambda x: x.argmax(-1),
    "block": Block(),
}


def exported(name: str) -> rl.export.ExportedProgram:
    return export(FUNCTIONS[name], (rl.ones(5, 32),), dynamic_shapes=({0: Dim("rows", max=4096)},))


@pytest.mark.generated("architecture")
@pytest.mark.parametrize("architecture", AMD_FEATURES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_kernel_has_a_descriptor_and_its_argument_words(name: str, architecture: str):
    made = amdgpu(exported(name), architecture)
    elf, kernels = ElfObject(made.code), kernels_of(made.code)
    assert elf.machine == MACHINE_AMDGPU
    assert not elf.undefined()
    symbols = {symbol.name: elf.sections[symbol.section] for symbol in elf.symbols if symbol.external}
    assert made.entries
    assert {entry.name for entry in made.entries} == set(kernels)
    for entry in made.entries:
        assert symbols[entry.name].flags & FLAG_EXECUTE
        assert symbols[f"{entry.name}.kd"].name == ".rodata"
        kernel = kernels[entry.name]
        assert kernel[".symbol"] == f"{entry.name}.kd"
        assert kernel[".kernarg_segment_size"] == 8 * entry.words
        assert [(one[".offset"], one[".size"]) for one in kernel[".args"]] == [(0, 8 * entry.words)]
        assert kernel[".max_flat_workgroup_size"] == entry.threads
        assert kernel[".wavefront_size"] == (32 if architecture == "gfx1100" else 64)
        assert kernel[".vgpr_spill_count"] == kernel[".sgpr_spill_count"] == 0


def test_an_object_is_the_same_each_time_and_differs_with_the_architecture():
    program = exported("softmax")
    first, again, other = (amdgpu(program, name).code for name in ("gfx90a", "gfx90a", "gfx942"))
    assert first == again
    assert first != other


def test_shared_memory_and_barriers_are_those_of_blocks():
    (kernel,) = kernels_of(amdgpu(exported("softmax"), "gfx90a").code).values()
    assert kernel[".group_segment_fixed_size"] > 0


def test_an_unknown_architecture_is_refused():
    with pytest.raises(RushlightError, match="no such target"):
        amdgpu(exported("sum"), "gfx1")
