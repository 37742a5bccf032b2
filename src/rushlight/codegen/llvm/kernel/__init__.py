"""Loop kernels as LLVM functions: loops, reductions, loads and stores."""
