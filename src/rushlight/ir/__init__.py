"""Types, scalar code, loops, kernels and graphs: the data that every engine reads and writes."""
