"""The decisions with dependencies closed and steps ordered."""
