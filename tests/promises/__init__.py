"""The promises of the manuals, with real processes and faults."""
