"""Functions as handlers: the runners of etc/runtimes, one for each language, spoken to over pipes."""
