"""The gather processing element (PE): multiply-accumulate lanes, requantisation, groups of PEs."""
