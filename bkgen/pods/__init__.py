"""`pod` and profile become the `kubernetes` plugin of a step. Source: agent-stack-k8s, the PodSpec API."""
