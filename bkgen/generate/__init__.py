"""The phases in order: each takes values and returns one."""
