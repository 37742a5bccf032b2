"""What all emitted functions are built with: nested regions, vector types, sizes, and facts about the target."""
