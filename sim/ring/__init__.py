"""Designs under test of the ring that are no whole machine."""
