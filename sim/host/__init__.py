"""The simulated bus behind the driver."""
