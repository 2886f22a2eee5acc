"""The memory side in a simulator."""
