"""`manage.py demo`: a shop that is open for business, and the same as a story that is told once."""
