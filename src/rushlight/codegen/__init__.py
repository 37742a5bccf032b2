"""Code generators: from scheduled kernels and plans to text for a target's compiler."""
