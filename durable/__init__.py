"""Durable execution for Django."""
