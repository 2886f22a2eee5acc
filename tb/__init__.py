"""Benches: cocotb on Verilator, formal proofs and plain tests, in the folders of what they test."""
