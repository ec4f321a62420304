"""The example project: settings, URLs and the demo. The `durable` app does not know it."""
