"""Atoll on a board: a LiteX core, systems around it, firmware and the driver in C."""

#: Clock of the systems, in Hz; DRAM runs at twice that.
CLOCK_HZ = 65_000_000
