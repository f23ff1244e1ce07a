"""All patches of tests/mutants still apply, and the tests catch two of them. `make mutants` tries them all."""
import importlib.machinery
import importlib.util
import re

import pytest

from harness import BUILD, ROOT, SANITIZED

_loader = importlib.machinery.SourceFileLoader("mutants", str(ROOT / "tests/mutants/run"))
mutants = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", _loader))
_loader.exec_module(mutants)

ALL = mutants.mutants()
by_name = pytest.mark.parametrize("mutant", ALL, ids=lambda m: m.name)
FAST = ["retry-undoes-too-much", "second-run-not-told"]
HARMLESS = """A comment is no mistake.

Caught by unit/test_units

--- a/common/base/units.c
+++ b/common/base/units.c
@@ -1 +1,2 @@
+/* ! */
 @FIRST@
"""


@by_name
def test_it_applies(mutant):
    assert mutants.patch(mutant.file, ROOT, "--dry-run") == ""


@by_name
def test_it_says_why_and_what_is_to_see_it(mutant):
    assert mutant.why and mutant.caught_by
    assert re.findall(r"^\+\+\+ b/(.*)", mutant.file.read_text(), re.M)
    for test in mutant.caught_by:
        file, _, name = test.partition("::")
        path = next((ROOT / "tests/unit").rglob(f"{file[5:]}.c")) if file.startswith("unit/") else ROOT / file
        assert path.exists() and re.search(rf"\b{re.escape(name.split('[')[0])}\b", path.read_text()), test


def test_the_table_of_the_document_is_that_of_the_patches():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \| (.*) \|$", (ROOT / "docs/reliability.md").read_text(), re.M)
    assert rows == [(m.name, m.why, ", ".join(f"`{test.split('::')[-1]}`" for test in m.caught_by)) for m in ALL]


@by_name
def test_only_what_is_compiled_again_is_changed(mutant):
    """A patch may not change a header: the other files that include it are not compiled again."""
    assert re.findall(r"^\+\+\+ b/(?!.*\.(?:c|lua)$).*", mutant.file.read_text(), re.M) == []


@pytest.mark.skipif(SANITIZED, reason="what is built beside these takes too long to be built again")
@pytest.mark.parametrize("name", FAST)
def test_a_mistake_is_caught(name):
    assert mutants.run([m for m in ALL if m.name == name], BUILD, say=print) == []


@pytest.mark.skipif(SANITIZED, reason="as above")
def test_what_survives_is_told(tmp):
    file = tmp / "harmless.patch"
    file.write_text(HARMLESS.replace("@FIRST@", (ROOT / "common/base/units.c").read_text().split("\n", 1)[0]))
    said = []
    assert [m.name for m in mutants.run([mutants.read(file)], BUILD, say=said.append)] == ["harmless"]
    assert "SURVIVED" in said[0] and "unit/test_units" in said[0]


def test_a_patch_that_does_not_apply_is_an_error(tmp):
    file = tmp / "stale.patch"
    file.write_text(HARMLESS.replace("@FIRST@", "no such line"))
    assert "FAILED" in mutants.patch(file, ROOT, "--dry-run")
