"""Run or skip, and why. Pure: build facts, changes and specs go in, decisions come out."""
