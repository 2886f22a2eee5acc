"""The atoll command and the flows behind it."""
