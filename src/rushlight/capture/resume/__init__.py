"""Functions that are compiled in parts: graphs between instructions that only Python can carry out."""
