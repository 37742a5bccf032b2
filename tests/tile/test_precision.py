"""What kernels promise of numbers: exact products of 4 bits, divergences of long rows."""

import pytest
from examples.tile.int4 import int4
from examples.tile.jsd import composition, jsd
from examples.tile.kl import kl

import rushlight as rl


@pytest.mark.row("7.5")
def test_the_product_of_4_bits_is_exact_for_every_byte():
    every = rl.arange(256).to(rl.uint8).view(rl.int8)
    for m, n in ((1, 1), (3, 7), (16, 33)):
        packed = every.reshape(256, 1).repeat(1, n)
        x = rl.randint(-8, 9, (m, 512))
        low = packed.to(rl.int64) % 16
        signed = rl.where(low >= 8, low - 16, low)
        weight = rl.stack([signed, packed.to(rl.int64) // 16], 1).reshape(512, n)
        assert rl.equal(int4(x.float(), packed).to(rl.int64), x @ weight)
        assert rl.equal(int4(x.to(rl.bfloat16), packed), (x @ weight).to(rl.bfloat16))


@pytest.mark.row("7.6")
@pytest.mark.parametrize("beta", [0, 0.1, 0.5, 1])
def test_the_divergence_of_long_rows_is_that_of_float64(beta: float):
    rl.manual_seed(0)
    for size in (1, 1000, 131072):
        q, p = ((rl.randn(3, size) * 3).log_softmax(1) for _ in range(2))
        found, wide = jsd(q, p, beta=beta), (q.double(), p.double())
        if beta in (0, 1):
            a, b = wide if beta == 0 else wide[::-1]
            expected = (b.exp() * (b - a)).sum(1)
        else:
            expected = composition(*wide, beta)
        assert rl.allclose(found.double(), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.row("7.6")
def test_divergences_of_logarithms_and_of_probabilities_agree():
    rl.manual_seed(0)
    q, p = (rl.randn(5, 32000).log_softmax(1) for _ in range(2))
    expected = (p.double().exp() * (p.double() - q.double())).sum(1)
    assert rl.allclose(kl(q, p, log_target=True).double(), expected, rtol=2e-6)
    assert rl.allclose(kl(q, p.exp()).double(), expected, rtol=1e-5)
