"""The texts of the admin in other languages: found in the code, translated in `durable/locale`.

`python -m tests.languages` (or `make texts`) puts new texts into the catalogues and compiles them.
"""
