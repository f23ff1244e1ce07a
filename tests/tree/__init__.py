"""The tree itself: its build, its documents, its structure, and the tools that run the tests."""
