"""The ring: features travel once round the chiplets, partial sums come home."""
