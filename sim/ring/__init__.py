"""Jobs on a simulated ring of chiplets."""
