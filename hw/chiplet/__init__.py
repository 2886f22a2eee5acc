"""A chiplet: command list in, results out, all data in its own memory."""
