"""make sbom: each library that the programs ask for, and each bundled file, in a document that follows SPDX 2.3."""
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from harness import QUREDIS, QUREDISD, ROOT, SANITIZED

_loader = importlib.machinery.SourceFileLoader("sbom", str(ROOT / "tests/release/sbom"))
sbom = importlib.util.module_from_spec(importlib.util.spec_from_loader("sbom", _loader))
_loader.exec_module(sbom)

pytestmark = [pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="dpkg is not installed"),
              pytest.mark.skipif(SANITIZED, reason="a release has no sanitizer"), pytest.mark.limit(300)]

# The fields that SPDX 2.3 requires.
DOCUMENT = {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"}
PACKAGE = {"SPDXID", "name", "downloadLocation"}
FILE = {"SPDXID", "fileName", "checksums"}
RELATION = {"spdxElementId", "relationshipType", "relatedSpdxElement"}


def flaws(document):
    """What of the document is against SPDX 2.3, or leads nowhere."""
    elements = [document, *document["packages"], *document["files"]]
    wrong = [f"{e.get('SPDXID')}: no {field}" for kind, required in ((elements[:1], DOCUMENT), (document["packages"], PACKAGE), (document["files"], FILE),
                                                                    (document["relationships"], RELATION)) for e in kind for field in required - set(e)]
    ids = [e.get("SPDXID", "") for e in elements]
    wrong += [f"{i}: no identifier" for i in ids if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", i)]
    wrong += [f"{i}: twice" for i in set(ids) if ids.count(i) > 1]
    wrong += [f"{r}: leads nowhere" for r in document["relationships"] for end in ("spdxElementId", "relatedSpdxElement") if r.get(end) not in ids]
    wrong += [f"{f['SPDXID']}: no SHA1" for f in document["files"] if "SHA1" not in [c["algorithm"] for c in f.get("checksums", [])]]
    if document["spdxVersion"] != "SPDX-2.3" or document["dataLicense"] != "CC0-1.0":
        wrong.append("another version, or another licence of the document")
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"]):
        wrong.append(f"created: {document['creationInfo']['created']}")
    return wrong + [f"{p['name']}: files without a verification code" for p in document["packages"]
                    if p.get("filesAnalyzed", True) and "packageVerificationCode" not in p]


def needed_libraries(program):
    with open(program, "rb") as f:
        tags = ELFFile(f).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
        return {t.needed for t in tags if not t.needed.startswith("ld-linux")}


@pytest.fixture(scope="module")
def document():
    done = subprocess.run([ROOT / "tests/release/sbom", QUREDISD, QUREDIS], env={**os.environ, "SOURCE_DATE_EPOCH": "1000000000"},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=200, check=True)
    return json.loads(done.stdout)


def test_it_follows_the_specification(document):
    assert flaws(document) == []
    assert document["creationInfo"]["created"] == "2001-09-09T01:46:40Z"


@pytest.mark.parametrize("damage", [lambda d: d.pop("documentNamespace"), lambda d: d["packages"][1].pop("downloadLocation"), lambda d: d["files"].pop(),
                                    lambda d: d["files"][0]["checksums"].pop(0), lambda d: d["files"].append(d["files"][0]),
                                    lambda d: d["packages"][0].pop("packageVerificationCode"), lambda d: d["relationships"][0].pop("relationshipType")])
def test_a_damaged_document_is_seen(document, damage):
    damaged = json.loads(json.dumps(document))
    damage(damaged)
    assert flaws(damaged) != []


@pytest.mark.parametrize("program", [QUREDISD, QUREDIS], ids=["quredisd", "quredis"])
def test_each_library_is_named_with_its_package(document, program):
    packages = {p["SPDXID"]: p for p in document["packages"]}
    linked = {r["comment"]: packages[r["relatedSpdxElement"]] for r in document["relationships"]
              if r["relationshipType"] == "DYNAMIC_LINK" and r["spdxElementId"] == f"SPDXRef-File-{program.name}"}
    assert set(linked) == needed_libraries(program)
    for package in linked.values():
        version = subprocess.check_output(["dpkg-query", "-W", "-f", "${Version}", package["name"]], text=True)
        assert package["versionInfo"] == version and f"/{package['name']}@" in package["externalRefs"][0]["referenceLocator"]


def test_each_bundled_file_is_named_with_its_sum(document):
    """What the sources embed, and what is installed in libexec."""
    embedded = {f"./admin/web/assets/{p}" for p in re.findall(r'\bX\(\w+, "([^"]+)"\)', (ROOT / "admin/web/files.h").read_text())}
    scripts = {f"./{p.relative_to(ROOT)}" for p in (ROOT / "common/queue/scripts").rglob("*.lua")}
    runtimes = {f"./{p.relative_to(ROOT)}" for p in (ROOT / "etc/runtimes").iterdir()}
    sums = {f["fileName"]: {c["algorithm"]: c["checksumValue"] for c in f["checksums"]} for f in document["files"]}
    assert len(scripts) > 20 and len(runtimes) == 5 and len(embedded) > 5 and scripts | runtimes | embedded <= set(sums)
    for name in scripts | runtimes | embedded:
        assert sums[name]["SHA256"] == hashlib.sha256((ROOT / name).read_bytes()).hexdigest()


def test_a_licence_of_its_own_is_read_and_a_notice_without_one_is_refused(tmp, capsys):
    (tmp / "mine.js").write_text("// nothing\n")
    (tmp / "theirs.js").write_text("/* SPDX-License-Identifier: BSD-3-Clause */\n// Copyright 2020 somebody\n")
    (tmp / "unclear.js").write_text("// Copyright 2020 somebody\n")
    assert sbom.file_entry("a", tmp / "mine.js", False)["licenseConcluded"] == "MIT"
    assert sbom.file_entry("a", tmp / "theirs.js", False)["licenseConcluded"] == "BSD-3-Clause"
    with pytest.raises(SystemExit, match="unclear.js: it has a notice of its own"):
        sbom.file_entry("unclear.js", tmp / "unclear.js", False)


def test_a_file_of_no_package_is_refused():
    with pytest.raises(SystemExit, match="no package of dpkg has"):
        sbom.packages_of([str(ROOT / "Makefile")])
