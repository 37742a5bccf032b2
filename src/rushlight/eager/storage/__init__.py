"""Memory as users see it: formats that order elements, and storages as objects of their own."""
