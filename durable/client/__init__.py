"""What callers hold: starting, handles, look-up by id or key."""
