"""Hardware models that stand around a design in simulation, and what benches need to use them."""
