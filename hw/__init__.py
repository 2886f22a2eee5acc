"""Amaranth sources of every hardware block; each becomes Verilog."""
