"""The interpreters that trace, each built upon the one before: what it adds is the one question that it answers."""
