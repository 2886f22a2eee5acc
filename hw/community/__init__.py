"""The community processor: combination of a record, shared sums planned from its bitmap, partial sums of hubs."""
