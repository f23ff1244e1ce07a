"""The console: its server, who may use it, its pages in a browser."""
