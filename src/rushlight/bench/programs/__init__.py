"""The cases' programs, written for each framework. Each has a table from names to functions that prepare them."""
