"""Compiled autograd: the tape that a backward pass finds becomes a program, which is compiled like others."""
