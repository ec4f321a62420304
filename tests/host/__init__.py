"""A project as others have it: its settings are strict, its users have UUIDs, and its log handler uses the ORM."""
