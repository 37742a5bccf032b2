"""Running one operator, or one derivative rule, now: signatures, artifacts, plans."""
