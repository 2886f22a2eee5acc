"""The registers in the formats of other tools, each from `contracts.registers`."""
