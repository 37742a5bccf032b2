"""Programs whose native code is run in branches and loops."""
