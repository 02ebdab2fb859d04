"""One file a paper, or a part of one: `TABLES`, with the figures that were printed."""
