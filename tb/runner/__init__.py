"""The runner of whole machines."""
