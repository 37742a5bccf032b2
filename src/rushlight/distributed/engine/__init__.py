"""The transports of `distributed`: what moves buffers between ranks."""
