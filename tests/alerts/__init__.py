"""Tests of the rules in etc/prometheus."""
