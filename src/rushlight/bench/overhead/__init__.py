"""Calls on tiny tensors: cases, and what each stage of a call takes."""
