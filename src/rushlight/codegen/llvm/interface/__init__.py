"""The functions of a native package that C programs call, around the entries of compiled plans."""
