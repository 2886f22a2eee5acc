"""Tests of the harness (`sim.harness`), of the flows and of the floors; marks of tests."""
