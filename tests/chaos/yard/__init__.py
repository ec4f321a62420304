"""An app whose handlers misbehave towards the process and the server that they run in."""
