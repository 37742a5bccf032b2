"""Entry points: how an executable launches its kernels."""
