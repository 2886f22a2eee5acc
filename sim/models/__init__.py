"""Models of what stands around a design: memories, checkers, recorders."""
