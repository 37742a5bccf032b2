"""Specifications of arguments: what a compiled artifact takes."""
