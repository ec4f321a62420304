"""Transports: what takes the deliveries of a queue to the processes that run them. See docs/transports.md.

The queues of the transport `database` are not here: workers claim their rows, and run them.
"""
