"""The command front end: all that units which take commands have in common."""
