"""Eager calls without a frame of Python: what the dispatcher and the plans do for calls that were made before."""
