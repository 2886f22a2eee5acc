"""The DNP-II neural processor, its chip and its arrays."""
