"""Networks of PyTorch Geometric, as it computes them and as they are read and converted here."""
