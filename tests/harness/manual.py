"""What the documentation tells operators to type, for tests that do it."""
import re

from .paths import ROOT


def access_lists():
    """User -> rules, of each line `ACL SETUSER NAME on >PASSWORD RULES` in docs/operating.md."""
    text = (ROOT / "docs/operating.md").read_text().replace("\\\n", " ")
    found = {name: rules.split() for name, rules in re.findall(r"ACL SETUSER (\S+) on >PASSWORD (.*)", text)}
    assert set(found) == {"producer", "supervisor", "operator", "reader"}, found
    return found
