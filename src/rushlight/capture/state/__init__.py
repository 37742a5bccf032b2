"""What a traced function reaches besides its arguments, and what it does to it."""
