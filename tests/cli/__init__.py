"""quredis, the command line, as a person or a script calls it."""
