"""A help desk: the app of the project."""
