"""Atoll on a board: a LiteX core, systems around it, firmware and the driver in C."""
