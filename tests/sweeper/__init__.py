"""The sweeper: rescue, purge, health, metrics and its other tasks."""
