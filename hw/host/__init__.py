"""Host interface: the control registers behind an AXI4-Lite port."""
