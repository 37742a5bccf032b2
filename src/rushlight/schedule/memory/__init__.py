"""Where values lie: aliases, the arena, and memory that must be filled first."""
