"""What people see: tables, the build's annotation, JSON for programs."""
