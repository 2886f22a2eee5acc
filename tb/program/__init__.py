"""Programs and the images that are made of them."""
