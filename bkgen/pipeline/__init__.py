"""The plan as a Buildkite pipeline: steps, groups, exact text, and uploads within the limits."""
