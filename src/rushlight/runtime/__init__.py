"""The native floor: the one door to LLVM, the object cache, memory, worker threads, calls and random generators.

Importing this package loads neither llvmlite nor a thread; both come with the first kernel.
"""
