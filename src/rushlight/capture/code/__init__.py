"""Code objects of CPython as instructions with resolved operands, the same for all versions."""
