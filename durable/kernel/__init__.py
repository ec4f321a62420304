"""The pure part: what a workflow does is a function of its history. No Django, clock, randomness or I/O in here."""
