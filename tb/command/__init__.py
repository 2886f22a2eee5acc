"""Bench and proofs of the command front end."""
