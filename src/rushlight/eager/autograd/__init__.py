"""The tape: nodes, recording, the driver of backward passes, custom functions, checks."""
