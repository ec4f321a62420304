"""What tests call by way of Django."""
