"""Captured programs on disk: the entry of a traced function as text, which another process checks and runs.

`places` finds where objects stand that an entry names, `encoding` writes an entry as rows, `decoding` reads them, and
`programs` keeps entries in the cache of compiled code. What cannot be written is not kept: its reason is counted.
"""
