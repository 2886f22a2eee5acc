"""The locator: hub detector, task generator, parallel searches, collectors, task allocator (I1-I5)."""
