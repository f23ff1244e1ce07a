"""The master: its start, signals, reload, control socket, systemd, embedded Redis."""
