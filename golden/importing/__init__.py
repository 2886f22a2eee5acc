"""Networks that were trained with PyTorch Geometric: reading, recognising, converting."""
