"""Attribute access: the two cache levels, Belady's bound, the sampler and mini-batches, step by step."""
