"""Networks of PyTorch Geometric, as it computes them and as they are read, evaluated and converted here."""
