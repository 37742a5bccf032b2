"""Scalar terms as LLVM instructions, scalar or by vectors."""
