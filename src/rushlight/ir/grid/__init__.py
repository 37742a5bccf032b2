"""What kernels of blocks and threads have beside loops."""
