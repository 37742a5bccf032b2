"""Whole models, trained and run: eager code beside compiled code, accuracy and speed in one table."""
