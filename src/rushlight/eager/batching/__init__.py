"""`vmap`: levels of batches, and what operators do over all places of one."""
