"""Short-time Fourier transforms, and the signals that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.eager import functions as ops
from rushlight.eager.arguments import fixed_integer, flag, required_tensor
from rushlight.eager.autocast import autocasts
from rushlight.eager.boundary import checked
from rushlight.eager.creation import ones
from rushlight.eager.symbols import holds
from rushlight.ir.dtype import Kind, bfloat16, float16
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require

if TYPE_CHECKING:
    from rushlight.eager.tensor import Tensor

_LEAST = 1e-11  # what windows must add up to, as in PyTorch


class _Frames(NamedTuple):
    """How a signal is cut: points of a transform, between starts of frames, of the window; and the window or None."""

    points: int
    hop: int
    width: int
    window: Any


@autocasts("float32")
@checked
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Return the Fourier transforms of frames of signals, `hop_length` apart: (..., frequencies, frames).

    With `center` frame t is around t * hop_length, and the signal is padded; else it begins there. With `onesided`, the
    default for real signals, the conjugate half is left out. Unless `return_complex` parts are in a last dim.
    """
    _require_signal(input, "stft")
    require(not center or align_to_window is None, "A004", "stft: align_to_window is for center=False")
    frames = _frames("stft", n_fft, (hop_length, win_length), window)
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    require(
        is_complex or return_complex is not None,
        "A004",
        "stft: return_complex must be given for real signals",
        hint="return_complex=True",
    )
    half = not is_complex if onesided is None else flag(onesided)
    require(not (half and is_complex), "A004", "stft: of complex signals and windows there is no half", input=input)
    around = frames.points // 2
    if flag(center):
        input = _padded(input, (around, around), pad_mode)
    length, aligned = frames.points, not center and align_to_window is not None and flag(align_to_window)
    if aligned:
        before = (frames.points - frames.width) // 2
        input = ops.constant_pad_nd(input, (before, frames.points - frames.width - before))
    fits = holds(input.shape[-1] >= length, "stft: at least one frame")
    require(fits, "A004", "stft: the signal is shorter than n_fft", input=input, n_fft=length)
    cut = input.unfold(-1, frames.points, frames.hop)
    if frames.window is not None:
        cut = cut * frames.window
    spectrum = _transformed(cut, "ortho" if flag(normalized) else "backward", half).transpose(-2, -1)
    whole = is_complex if return_complex is None else flag(return_complex)
    return spectrum if whole else ops.stack((ops.real(spectrum), ops.imag(spectrum)), -1)


def _require_signal(input: Any, op: str) -> None:
    dtype = required_tensor(input).dtype
    fits = dtype.kind >= Kind.FLOAT and dtype not in (float16, bfloat16)
    require(fits, "D001", f"{op}: not supported for {dtype.name}", hint="convert to float32 first")
    require(op != "stft" or input.ndim in (1, 2), "S002", "stft: a signal, or a batch of them, is needed", input=input)


def _padded(input: Tensor, pads: tuple[int, int], mode: str) -> Tensor:
    """A signal, or a batch, with its ends padded: rules for images pad (n, c, w)."""
    lead = (1,) * (3 - input.ndim)
    padded = ops.pad(input.reshape(*lead, *input.shape), pads, mode)
    return padded.reshape(*padded.shape[len(lead) :])


def _frames(op: str, n_fft: Any, lengths: tuple[Any, Any], window: Any) -> _Frames:
    points = fixed_integer(n_fft)
    require(points > 0, "A004", f"{op}: n_fft must be positive", n_fft=points)
    hop = points // 4 if lengths[0] is None else fixed_integer(lengths[0])
    width = points if lengths[1] is None else fixed_integer(lengths[1])
    require(hop > 0, "A004", f"{op}: hop_length must be positive", hop_length=hop)
    require(0 < width <= points, "A004", f"{op}: win_length is 1 to n_fft", win_length=width, n_fft=points)
    if window is not None:
        fits = required_tensor(window).ndim == 1 and holds(window.shape[0] == width, f"{op}: the window's size")
        require(fits, "A004", f"{op}: the window must have {width} elements", window=window)
    elif width < points:
        window = ones(width)
    if window is not None and width < points:
        before = (points - width) // 2
        window = ops.constant_pad_nd(window, (before, points - width - before))
    return _Frames(points, hop, width, window)


def _transformed(cut: Tensor, norm: str, half: bool) -> Tensor:
    if half:
        return OPERATORS["fft_r2c"](cut, cut.ndim - 1, norm)
    wide = cut if cut.is_complex() else cut + 0j
    return OPERATORS["fft_c2c"](wide, (cut.ndim - 1,), norm, True)


@autocasts("float32")
@checked
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signals whose `stft` is nearest to (..., frequencies, frames).

    They are cut, or filled up with zeros, to `length`. Errors: R002 where an element lies under no window.
    """
    _require_signal(input, "istft")
    require(input.is_complex(), "A004", "istft: the input must be complex", input=input, hint="view_as_complex")
    require(input.ndim in (2, 3), "S002", "istft: frequencies and frames, or a batch, are needed", input=input)
    frames = _frames("istft", n_fft, (hop_length, win_length), window)
    require(frames.hop <= frames.width, "A004", "istft: hop_length must not exceed win_length", hop_length=frames.hop)
    filled = all(holds(size > 0, "istft: an input with elements") for size in input.shape)
    require(filled, "A004", "istft: the input has no elements", input=input)
    real = not flag(return_complex)
    fits = not real or window is None or not window.is_complex()
    require(fits, "A004", "istft: of a complex window the signal is complex", hint="return_complex=True")
    cut = _signals(input.transpose(-2, -1), frames, "ortho" if flag(normalized) else "backward", (onesided, real))
    return _overlapped(cut, frames, flag(center), None if length is None else fixed_integer(length))


def _signals(input: Tensor, frames: _Frames, norm: str, form: tuple[bool | None, bool]) -> Tensor:
    """The transforms back of (..., frames, frequencies), real ones by half of the frequencies."""
    onesided, real = form
    points, last = frames.points, input.ndim - 1
    whole = holds(input.shape[last] == points, "istft: the number of frequencies")
    half = not whole if onesided is None else flag(onesided)
    require(real or not half, "A004", "istft: of half of the frequencies the signal is real", hint="onesided=False")
    expected = points // 2 + 1 if half else points
    fits = holds(input.shape[last] == expected, "istft: the number of frequencies")
    require(fits, "A004", f"istft: {expected} frequencies are expected", input=input, n_fft=points)
    if real:
        return OPERATORS["fft_c2r"](ops.slice(input, last, 0, points // 2 + 1), last, norm, points)
    return OPERATORS["fft_c2c"](input, (last,), norm, False)


def _overlapped(cut: Tensor, frames: _Frames, center: bool, length: int | None) -> Tensor:
    """Frames (..., frames, points) added up where they overlap, divided by their windows' squares there."""
    window = ones(frames.points) if frames.window is None else frames.window
    count = cut.shape[-2]
    total = frames.points + frames.hop * (count - 1)
    parts = (cut * window).transpose(-2, -1)
    squares = (window * window).unsqueeze(-1).expand(frames.points, count)
    start = frames.points // 2 if center else 0
    end = start + length if length is not None else total - frames.points // 2 if center else total
    add = OPERATORS["fold_windows"]
    signal, weight = [
        ops.slice(add(part, (total,), (frames.hop,), (0,), (1,)), -1, start, end) for part in (parts, squares)
    ]
    signal = signal / OPERATORS["checked_envelope"](weight, _LEAST)
    missing = 0 if length is None else length - signal.shape[-1]
    return ops.constant_pad_nd(signal, (0, missing)) if length is not None else signal
