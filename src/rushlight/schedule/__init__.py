"""From a graph of primitives to a plan: lowering, fusion, loop structure, memory."""
