"""Entry points of executables: they check sizes, place buffers and launch kernels."""
