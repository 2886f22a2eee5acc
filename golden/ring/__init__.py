"""The ring of chiplets in exact models: placement, traffic, matching, images."""
