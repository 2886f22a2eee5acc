"""Programs: regions and commands that refer to each other, and the one place where they become an image."""
