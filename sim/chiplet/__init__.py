"""Jobs on a simulated chiplet, and its host."""
