"""quredisd -t and -T, and which paths are trusted. golden/ holds configurations and what is said about each."""
