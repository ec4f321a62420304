"""An app whose handlers are what the worker's tests run, in this process and in others."""
