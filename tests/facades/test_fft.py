"""Fourier transforms give the numbers of PyTorch 2.13, keep precision and shape, and are differentiated twice."""

import pytest

import rushlight as rl
from rushlight import fft
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.ops import OPERATORS

TALL = rl.tensor([[1.0, 2], [0, 1], [3, -1], [2, 2]], dtype=rl.float64)
VECTOR = rl.tensor([1.0, 2, 3, 4, 5], dtype=rl.float64)
COMPLEX = VECTOR * (1 + 2j)
ROOT = 0.8660254

CASES = {
    "hfft": (
        lambda: fft.hfft(COMPLEX, norm="ortho"),
        [8.485281, 7.828427, -2.828427, 1.343146, 0.0, -2.171573, 2.828427, -12.656854],
    ),
    "hfft of 5": (lambda: fft.hfft(COMPLEX, n=5), [11.0, 12.043841, -7.092362, 6.32843, -17.279909]),
    "irfft": (
        lambda: fft.irfft(COMPLEX, norm="ortho"),
        [8.485281, -12.656854, 2.828427, -2.171573, 0.0, 1.343146, -2.828427, 7.828427],
    ),
    "irfft of 5": (lambda: fft.irfft(COMPLEX, n=5), [2.2, -3.455982, 1.265686, -1.418472, 2.408768]),
    "rfft": (lambda: fft.rfft(VECTOR, n=4, norm="forward"), [2.5, -0.5 + 0.5j, -0.5]),
    "ihfft": (lambda: fft.ihfft(VECTOR, n=4, norm="forward"), [10.0, -2.0 - 2.0j, -2.0]),
    "fft2": (
        lambda: fft.fft2(TALL, s=(2, 3)),
        [4.0, -0.5 - 3 * ROOT * 1j, -0.5 + 3 * ROOT * 1j, 2.0, 0.5 - ROOT * 1j, 0.5 + ROOT * 1j],
    ),
    "irfftn": (lambda: fft.irfftn(fft.rfftn(TALL), s=(4, 2)), [1.0, 2.0, 0.0, 1.0, 3.0, -1.0, 2.0, 2.0]),
    "fftfreq": (lambda: fft.fftfreq(5, 0.5), [0.0, 0.4, 0.8, -0.8, -0.4]),
    "rfftfreq": (lambda: fft.rfftfreq(5, 0.5), [0.0, 0.4, 0.8]),
    "fftshift": (lambda: fft.fftshift(VECTOR), [4.0, 5.0, 1.0, 2.0, 3.0]),
    "ifftshift": (lambda: fft.ifftshift(VECTOR), [3.0, 4.0, 5.0, 1.0, 2.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_peers(name):
    call, expected = CASES[name]
    assert call().flatten().tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("back", "there", "dtype"),
    [(fft.ifftn, fft.fftn, rl.complex64), (fft.ihfftn, fft.hfftn, rl.float32), (fft.irfftn, fft.rfftn, rl.complex64)],
)
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_transforms_are_undone_in_32_bits(back, there, dtype, norm):
    given = rl.arange(24.0).reshape(2, 3, 4) ** 1.5
    spectrum = there(given if there is not fft.hfftn else given[..., :3], norm=norm)
    assert spectrum.dtype is dtype
    if there is fft.hfftn:
        given = fft.hfftn(back(spectrum, norm=norm), s=(2, 3, 4), norm=norm)
        assert rl.allclose(given, spectrum, atol=1e-3)
    else:
        assert rl.allclose(back(spectrum, s=(2, 3, 4), norm=norm).real, given, atol=1e-4)


@pytest.mark.parametrize("call", [fft.rfft2, fft.ihfft, fft.fft, lambda x: fft.irfft(x, n=5), fft.hfft])
def test_derivatives_are_differentiated_again(call):
    given = TALL.mT.clone().requires_grad_()
    assert gradcheck(call, (given,))
    assert gradgradcheck(call, (given,))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: fft.fft(VECTOR, norm="whole"), "A004"),
        (lambda: fft.fft(VECTOR, n=0), "A004"),
        (lambda: fft.rfft(COMPLEX), "D001"),
        (lambda: fft.fft(VECTOR.half()), "D001"),
        (lambda: fft.fftn(TALL, dim=(0, 0)), "A004"),
        (lambda: fft.fftn(TALL, s=(2, 2, 2)), "A004"),
        (lambda: fft.fft(rl.tensor(1.0)), "A004"),
    ],
)
def test_wrong_arguments_have_codes(call, code):
    with pytest.raises(rl.RushlightError, match=code):
        call()


def test_half_a_spectrum_has_as_many_points_as_the_transform_needs():
    for points in (0, 2, 4):
        with pytest.raises(rl.RushlightError, match="half of the transform has") as caught:
            OPERATORS["fft_c2r"](rl.zeros(2, points, dtype=rl.complex64), 1, "backward", 4)
        assert caught.value.code == "A004"
    assert fft.irfft(rl.ones(2, 1, dtype=rl.complex64), 4).tolist() == [[0.25] * 4] * 2, "what is missing is 0"
