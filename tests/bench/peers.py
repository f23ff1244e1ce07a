"""Others."""
def cases(bench):
    return {}
