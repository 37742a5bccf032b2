"""CPython's own tests with interpreted and compiled bodies: `python -m tools.cpython_tests --help`."""
