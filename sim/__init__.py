"""Simulation: building simulators, running them, memory models, hosts and jobs, and the driver."""
