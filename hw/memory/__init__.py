"""The memory side: AXI4 ports, the read arbiter, fetchers and readers of ranges, and the write port."""
