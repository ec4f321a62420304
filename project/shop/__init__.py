"""The demo's shop: orders whose way through payment and shipping is one workflow."""
