"""A real browser at the admin."""
