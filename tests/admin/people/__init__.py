"""A project's own users, as they are often made: another app, an e-mail to log in with, a UUID for a key."""
