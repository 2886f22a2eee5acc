"""Blocks that only move words of a stream: queue, register slice, arbiter."""
