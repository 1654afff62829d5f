"""The operators, one description a file."""
