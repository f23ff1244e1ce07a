"""quredis doctor."""
