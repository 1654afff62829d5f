"""Problem shapes, and what is measured of them."""
