"""Tests of the command and its flows."""
