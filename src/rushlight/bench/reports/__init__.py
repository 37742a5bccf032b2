"""A run's record shown: as text, as a table in Markdown, as a page of HTML."""
