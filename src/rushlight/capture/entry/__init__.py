"""Compiled entries: guards, the native call, and the effects of a call, as one generated function."""
