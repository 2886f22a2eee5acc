"""Blocks that move words of a stream: queue, register slice, arbiter; and black boxes."""
