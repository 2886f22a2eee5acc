"""The community processor: combines records, plans shared sums from their bitmaps, adds partial sums of hubs."""
