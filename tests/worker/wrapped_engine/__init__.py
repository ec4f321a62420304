"""A database engine around Django's, as monitoring packages have it: its name says nothing, its vendor all."""
