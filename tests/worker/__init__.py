"""Workers and the handlers that they run."""
