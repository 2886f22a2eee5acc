"""The locator: hub detector, task generator, parallel searches, collectors (I1-I4)."""
