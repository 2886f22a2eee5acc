"""The locator in a simulator."""
