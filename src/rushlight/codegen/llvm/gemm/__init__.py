"""Matrix products as LLVM IR text: micro-kernels, packing, tiling and tasks."""
