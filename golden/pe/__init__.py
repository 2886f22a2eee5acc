"""The gather PE: its result rows and its cycles."""
