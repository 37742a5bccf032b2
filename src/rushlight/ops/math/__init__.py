"""Elementary functions in terms of arithmetic, with bounds on their errors."""
