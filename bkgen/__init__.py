"""bkgen: one Buildkite pipeline from a folder of GPU test directories."""
