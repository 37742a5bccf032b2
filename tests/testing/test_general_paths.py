"""Each site that asks about sizes has a row in the docs, is left open by some program, and matters to it."""

import functools
import re
from pathlib import Path

import pytest

from general_paths import plain, sites, watched
from rushlight.eager.execution.mutate import shows_twice
from rushlight.eager.indexing import is_extra
from rushlight.eager.mutation import COPY, out_form
from rushlight.eager.symbols import SymInt, holds
from rushlight.eager.tracing.loops import agree
from rushlight.ir.dtype import complex64, float32, float64, int64
from rushlight.ir.graph import GraphBuilder
from rushlight.ir.type import CPU, Layout, TensorType, in_elements_of
from rushlight.ops import OPERATORS
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope
from rushlight.testing import unbacked_fuzz
from rushlight.tile import Tile, tile

DOCS = Path(__file__).parents[2] / "docs" / "general-paths.md"
SITES = sorted(set(sites().values()))
SEED, PROGRAMS = 20, 450
WEAK = TensorType((), float64, weak=True)


class Unknown:
    """Operands of a graph whose sizes have no hints."""

    def __init__(self):
        self.scope = Scope()
        self.builder = GraphBuilder()

    def size(self, lower=0):
        return self.scope.symbol(lower=lower)

    def node(self, rank, dtype=float32):
        return self.builder.parameter("x", TensorType(tuple(self.size() for _ in range(rank)), dtype))


def infer(name, *types, **attrs):
    return OPERATORS[name].infer(types, attrs)


def gradient_of_scattered(world):
    source, index = world.node(1), world.node(1, int64)
    return OPERATORS["scatter"].vjp_rule(world.node(1), dim=0, index=index, src=source)


def by_channel(world):
    x, weight = world.node(3).type, world.node(3).type
    weight = TensorType((2, 1, weight.shape[2]), float32)
    return infer("convolution", x, weight, None, stride=(1,), padding=(0,), dilation=(1,), groups=2)


def in_groups_of_any_width(world):
    x = TensorType((world.size(), 4, world.size(8)), float32)
    weight = TensorType((world.size(), 2, 3), float32)
    return infer("convolution", x, weight, None, stride=(1,), padding=(0,), dilation=(1,), groups=2)


def padded_convolution(world):
    x, weight = TensorType((world.size(), 2, world.size(8)), float32), TensorType((4, 2, 3), float32)
    return infer("convolution", x, weight, None, stride=(1,), padding=(world.size(None),), dilation=(1,), groups=1)


def strided(world):
    return infer("as_strided", world.node(1).type, size=(2,), stride=(world.size(None),), storage_offset=None)


def expand_by_one(x):
    return OPERATORS["expand"](x, (x.shape[0] + 1,))


def attend_in_groups(world):
    query, key = world.node(4).type, world.node(4).type
    options = {"dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": True}
    return infer("scaled_dot_product_attention", query, key, key, None, **options)


def bags_between_offsets(world):
    places = (world.node(1, int64).type, world.node(1, int64).type)
    options = {"mode": "sum", "include_last_offset": True, "padding_idx": None}
    return infer("embedding_bag", world.node(2).type, *places, None, **options)


def largest_of_bags(world):
    places = (world.node(1, int64).type, world.node(1, int64).type)
    options = {"mode": "max", "include_last_offset": True, "padding_idx": None}
    return infer("embedding_bag", world.node(2).type, *places, None, **options)


def settled(world):
    layout = Layout((world.size(), world.size()), (world.size(), world.size()))
    return OPERATORS["reshape"].shares_rule(layout, shape=(layout.shape[0] * layout.shape[1],))


def scattered(world):
    return TensorType((world.size(), world.size()), float32, strides=(world.size(), world.size()))


# What programs by chance meet seldom: a call for each.
CALLS = (
    lambda world: out_form(OPERATORS["exp"]).check(world.node(1).type, world.node(1).type),
    lambda world: is_extra(world.size()),
    gradient_of_scattered,
    attend_in_groups,
    lambda world: infer("reshape", world.node(2).type, shape=(world.size(None), -1)),
    by_channel,
    in_groups_of_any_width,
    padded_convolution,
    lambda world: infer("constant_pad_nd", world.node(1).type, pad=(world.size(None), 0), value=0.0),
    lambda world: infer("pad", world.node(3).type, pad=(world.size(None), 0), mode="circular", value=None),
    lambda world: infer("pad", world.node(3).type, pad=(world.size(None), 0), mode="replicate", value=None),
    strided,
    lambda world: expand_by_one(world.node(1)),
    lambda world: infer("expand", world.node(1).type, size=(world.size(),)),
    lambda world: infer("fft_c2r", world.node(1, complex64).type, dim=0, norm="ortho", size=world.size(None)),
    lambda world: infer("zeros", size=(world.size(None),), dtype=float32, device=None),
    lambda world: infer("linspace", WEAK, WEAK, steps=world.size(None), dtype=float32, device=None),
    lambda world: infer("arange", start=0, end=world.size(), step=world.size(), dtype=int64, device=None),
    lambda world: infer("slice", world.node(1).type, dim=0, start=0, end=None, step=world.size(None)),
    lambda world: infer("unfold", world.node(1).type, dimension=0, size=1, step=world.size()),
    lambda world: infer("argsort", world.node(1).type, dim=0, descending=False, start=0, length=world.size()),
    lambda world: infer(
        "split", world.node(1).type, split_size_or_sections=(world.size(None), world.size(None)), dim=0
    ),
    bags_between_offsets,
    largest_of_bags,
    lambda world: infer("segment_sum", world.node(2).type, world.node(1, int64).type, None, None),
    lambda world: infer(
        "padded_segments", world.node(2).type, world.node(1, int64).type, length=world.size(None), padding=0.0
    ),
    lambda world: infer("unpadded_segments", world.node(3).type, world.node(1, int64).type, count=world.size(None)),
    lambda world: list(tile(SymInt(world.size(None)))),
    lambda world: Tile(world.size(None), world.size(None), "i").within(world.size(), 0),
    lambda world: Tile(0, world.size(), "i").within(world.size(), 0),
    lambda world: infer("adaptive_max_pool", world.node(3).type, output_size=(2,)),
    lambda world: infer("resize_nearest", world.node(3).type, size=(world.size(None),), scales=None, exact=False),
    lambda world: infer("fold_windows", world.node(2).type, output_size=(4,), stride=(1,), padding=(0,), dilation=(1,)),
    lambda world: infer(
        "grid_sample",
        *(world.node(4).type, world.node(4).type),
        mode="bilinear",
        padding_mode="zeros",
        align_corners=False,
    ),
    lambda world: infer("view", scattered(world), size=(-1,)),
    lambda world: shows_twice(scattered(world)),
    lambda world: shows_twice(TensorType((world.size(), 4), float32, strides=(1, 0))),
    lambda world: COPY.check(TensorType((1,), float32), world.node(1).type),
    settled,
    lambda world: infer("view_as_complex", world.node(1).type),
    lambda world: infer("view_as_complex", TensorType((3, 2), float32, strides=(world.size(), world.size()))),
    lambda world: in_elements_of(complex64, world.size(), float32),
    lambda world: OPERATORS["one_hot"].decompose_rule(world.node(1, int64), world.size()),
    lambda world: infer("view_dtype", TensorType((3, world.size()), float32), dtype=complex64),
    lambda world: infer("view_dtype", TensorType((3, 2), float32, strides=(2, world.size())), dtype=complex64),
    lambda world: agree(world.size(), world.size()),
    lambda world: infer("tril_indices", row=world.size(-5), col=3, offset=0, dtype=None, device=CPU),
    lambda world: infer("random_bits", WEAK, WEAK, size=(world.size(-5),), dtype=None, device=CPU),
    lambda world: holds(SymInt(world.size()) == SymInt(world.size())),
)


@functools.cache
def programs_that_leave_open():
    """The first program, or call, that leaves a site open, by site."""
    found = {}
    for number in range(PROGRAMS):
        with watched() as open_sites:
            unbacked_fuzz(SEED, 1, first=number, execute=False)
        for site in open_sites:
            found.setdefault(site, functools.partial(_run_program, number))
    for call in CALLS:
        with watched() as open_sites:
            _run_call(call)
        for site in open_sites:
            found.setdefault(site, functools.partial(_run_call, call))
    return found


def _run_program(number):
    return [item.kind for item in unbacked_fuzz(SEED, 1, first=number, execute=False).findings]


def _run_call(call):
    try:
        call(Unknown())
    except RushlightError as error:
        return ["undecided" if error.code == "C002" else "refused"]
    return []


def test_every_site_has_its_row_in_the_docs():
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    written = {(where, question) for where, question in rows}
    assert written == {(f"{site.where}: {site.function}", site.question) for site in SITES}


@pytest.mark.slow
def test_every_choice_says_what_its_general_path_is():
    choices = [site for site in SITES if not site.question.startswith("required(")]
    assert choices and not [str(site) for site in choices if not site.explained]


def test_every_site_is_left_open_and_matters():
    """A site that asked `guard` instead would stop the program that leaves it open."""
    found = programs_that_leave_open()
    never = [str(site) for site in SITES if site not in found]
    assert not never, never
    for site, run in found.items():
        assert run() == [], site
        with plain(site):
            assert "undecided" in run(), f"{site}: a plain guard there is not noticed"
