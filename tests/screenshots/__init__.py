"""Pictures of the admin: those of the documentation, and any other language, width and colour to look at.

`python -m tests.screenshots` makes `docs/images` anew. It needs Chromium and its driver.
"""
