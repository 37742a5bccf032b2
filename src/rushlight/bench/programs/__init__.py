"""The cases' programs, written for each framework. A table for each: the program's name, and what prepares it."""
