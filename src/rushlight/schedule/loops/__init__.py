"""From groups of nodes to kernels: loop nests, matrix products, row blocks, scans and scatters."""
