"""The manual and the sources say the same. Every check is also shown a page that is wrong."""
import re
import shutil
import subprocess

import pytest

from harness import ROOT, sources

PAGES = ("quredisd.8", "quredis.1", "quredis.conf.5", "quredis-handler.7", "quredis-function.7")
PARITY_ROWS = [f"A{i}" for i in range(1, 65)] + [f"B{i}" for i in range(1, 33)] + [f"C{i}" for i in range(1, 25)]


def read_pages():
    return {name: (ROOT / "man" / name).read_text() for name in PAGES}


# ---- mdoc ----

def part(page, *titles):
    """Returns the text under these titles, each one below the one before."""
    for title, macro in zip(titles, ("Sh", "Ss")):
        end = r"\n\.Sh |\Z" if macro == "Sh" else r"\n\.S[hs] |\Z"
        found = re.search(rf"^\.{macro} {re.escape(title)}\n(.*?)(?={end})", page, re.M | re.S)
        assert found, f"no .{macro} {title}"
        page = found[1] + "\n"
    return page


def items(text, macro):
    """First arguments of .It MACRO lines -> the rest of the line."""
    return {m[1]: m[2] for m in re.finditer(rf"^\.It {macro} (\S+)(?: (.*))?$", text, re.M)}


def plain(text):
    """Words of a page without macros: enough to look for a name."""
    return re.sub(r"^\.\S+ ?|\\&|\b(?:Ns|No|Pq|Ic|Li|Ar|Op|Fl|Ev) ", "", text, flags=re.M)


def differences(what, documented, existing):
    return [f"{what} {x}: not documented" for x in sorted(set(existing) - set(documented))] + \
        [f"{what} {x}: documented, but does not exist" for x in sorted(set(documented) - set(existing))]


# ---- checks: each gives what is wrong ----

def documented_keys(page):
    """key -> (form, section)"""
    found, prefix, section = {}, "", ""
    for line in page.splitlines():
        if line.startswith(".Sh "):
            section = line[4:]
            prefix = {"KEYS OF A QUEUE": "queue.", "KEYS OF A SCHEDULE": "schedule.", "KEYS OF A THROTTLE": "throttle."}.get(section, "")
        m = re.match(r"\.It Ic (\S+)(?: Pq (.*))?$", line)
        if m and m[2]:
            found[prefix + m[1]] = (m[2], section)
    return found


def keys_are_as_in_the_schema(pages):
    documented, existing = documented_keys(pages["quredis.conf.5"]), sources.conf_keys()
    wrong = [f"key {k}: documented as ({documented[k][0]}), is ({form})"
             for k, form in existing.items() if k in documented and documented[k][0] != form]
    return differences("key", documented, existing) + wrong


def events_and_fields_are_as_logged(pages):
    page, existing, wrong = part(pages["quredisd.8"], "LOG EVENTS"), sources.log_events(), []
    documented = {name: set(re.sub(r"^Pq ", "", rest or "").replace(",", "").split())
                  for name, rest in items(page, "Li").items()}
    for event in set(documented) & set(existing):
        # queue and worker are given as NULL by those that have none
        wrong += [f"event {event}: field {f} not documented" for f in sorted(existing[event] - documented[event] - {"queue", "worker"})]
        wrong += [f"event {event}: has no field {f}" for f in sorted(documented[event] - existing[event])]
    return differences("event", documented, existing) + wrong + sources.log_calls_without_event()


def options_of_quredisd(pages):
    return _options("quredisd", part(pages["quredisd.8"], "DESCRIPTION"), sources.quredisd_options())


def options_of_quredis(pages):
    return _options("quredis", pages["quredis.1"], sources.quredis_options())


def _options(program, page, existing):
    documented = {f"-{word}" for m in re.finditer(r"^\.It Fl (.*)$", page, re.M) for word in re.split(" Ar | Ns Op ", m[1])[0].split(" , ")}
    return differences(f"option of {program}", documented, existing)


def commands_and_their_arguments(pages):
    page = part(pages["quredis.1"], "COMMANDS")
    documented = set()
    for line in re.findall(r"^\.It Ic (.*)$", page, re.M):
        line = re.sub(r"Op Ar (.*)", r"[\1]", line)
        documented.add(re.sub(r"\bAr ", "", line))
    return differences("command", documented, sources.commands())


def record_fields_in_their_order(pages):
    documented = list(items(part(pages["quredis.1"], "RECORDS").split(".Ss Classes")[0], "Li"))
    if sorted(documented) != sorted(sources.record_fields()):
        return differences("record field", documented, sources.record_fields())
    return [] if documented == sources.record_fields() else ["record fields: in another order"]


def error_classes(pages):
    return differences("class", items(part(pages["quredis.1"], "RECORDS", "Classes"), "Li"), sources.error_classes())


def counters(pages):
    return differences("counter", items(part(pages["quredis.1"], "COUNTERS"), "Li"), sources.counters())


def metrics(pages):
    """Each row of the table of metrics is documented, and measured by a figure or by a page."""
    sources_of = ("common/facts/table.h", "common/facts/counters.c", "sweeper/report/prometheus.c",
                  "admin/web/metrics.c")
    measured = "".join((ROOT / path).read_text() for path in sources_of)
    documented = re.findall(r"^\.Li (quredis_\w+)", pages["quredis.conf.5"], re.M)
    return differences("metric", documented, sources.metrics()) + \
        [f"metric {name}: no figure and no page has it" for name, row in sources.metrics().items()
         if not re.search(rf"\bMETRIC_{row}\b", measured)]


def health_codes(pages):
    documented = re.search(r"A code is one of\n\.Li (.*)\nand\n\.Li unreported", pages["quredis.1"])
    return differences("code of health", documented[1].split(" , ") if documented else [], sources.health_codes())


def states(pages):
    queues, found = part(pages["quredisd.8"], "DESCRIPTION", "States of a queue"), []
    documented = [s for line in re.findall(r"^\.It Li (.*)$", queues, re.M) for s in line.split(" , ")]
    found += differences("state of a queue", documented, sources.queue_states())
    status = part(pages["quredis.1"], "COMMANDS", "Supervisor")
    waits = re.search(r"^A worker waits for\n\.Bl (.*?)^\.El$", status, re.M | re.S)
    found += differences("what a worker waits for:", re.findall(r"^\.It Li (.*)$", waits[1], re.M) if waits else [], sources.what_workers_wait_for())
    return found + [f"state of a worker {s}: not documented" for s in sources.worker_states()
                    if s != "free" and not re.search(rf"^\.Li {s}\b", status, re.M)]


def verbs(pages):
    """Wherever the channel for replies is described."""
    replies = part(pages["quredis-handler.7"], "HANDLERS", "Replies")
    key = re.search(r"^\.It Ic reply_fd .*?(?=^\.It )", pages["quredis.conf.5"], re.M | re.S)[0]
    return [f"{where}: {verb} is not documented" for where, text in (("Replies", replies), ("reply_fd", key)) for verb in sources.verbs_of_exec()
            if not re.search(rf"^\.(It )?Li (.* )?{verb}\b", text, re.M)]


def json_keys(pages):
    page = plain(pages["quredis.1"])
    return [f"JSON key {k}: not documented" for k in sorted(sources.json_keys() | sources.status_keys())
            if not re.search(rf"\b{k}\b", page)]


def environment(pages):
    named = {v for page in ("quredisd.8", "quredis.1", "quredis.conf.5") for line in
             re.findall(r"^\.It Ev (.*)$", pages[page], re.M) for v in line.split(" , ")}
    handler = {v for v in re.findall(r"^\.(?:It )?Ev (\w+)", pages["quredis-handler.7"], re.M)}
    return differences("variable", named - {"LC_CTYPE"}, sources.environment()) + \
        differences("variable of a handler", {v for v in handler if v != "LC_"}, sources.handler_environment())


def header_keys(pages):
    text = sources.read("common")["common/message/message.c"]
    body = re.search(r"static int parse_header\(.*?\n\}", text, re.S)[0]
    return differences("header key", items(part(pages["quredis-handler.7"], "HEADER LINE"), "Li"),
                       set(re.findall(r'line, "(\w+)"', body)))


def pages_refer_to_each_other(pages):
    own = {p.rsplit(".", 1)[0]: p.rsplit(".", 1)[1] for p in PAGES}
    return [f"{name}: .Xr {m[1]} {m[2]}" for name, page in pages.items()
            for m in re.finditer(r"^\.Xr (\S+) (\d)", page, re.M) if m[1] in own and own[m[1]] != m[2]] + \
        [f"{name}: .Sx {m[1]}" for name, page in pages.items() for m in re.finditer(r"^\.Sx (.*?)(?: [.,;:])?$", page, re.M)
         if not re.search(rf"^\.S[hs] {re.escape(m[1])}$", page, re.M)]


def diagnostics_are_said(pages):
    """Three words in a row of each item stand in a string of the sources. Symptoms (A ..., error=...) are nobody's words."""
    said = "\n".join(sources.strings())
    wrong = []
    for name in PAGES[:3]:
        for item in re.findall(r"^\.It (.*)$", part(pages[name], "DIAGNOSTICS"), re.M):
            words = item.replace(r"\(dq", '\\"').split()
            event = re.match(r"event=(\w+)", item)
            if event and event[1] not in sources.log_events():
                wrong.append(f"{name}: {item}: no such event")
            if event or item.startswith(("A ", "error=")) or item.endswith(("Connection refused", "Permission denied")):
                continue
            n = min(3, len(words))
            if not any(" ".join(words[i:i + n]) in said for i in range(len(words) - n + 1)):
                wrong.append(f"{name}: {item}: nobody says so")
    return wrong


def exit_statuses(pages):
    found = []
    for page, paths in (("quredis.1", ("admin/",)), ("quredisd.8", tuple(f"supervisor/{f}.c" for f in ("main", "master", "lock", "reload")))):
        documented = re.findall(r"^\.It (\d+)$", part(pages[page], "EXIT STATUS"), re.M)
        found += differences(f"{page}: exit status", documented, sources.exit_statuses(*paths))
    return found


NUMBERS = [    # (page, what stands there, source, the constant)
    ("quredis-handler.7", r"Up to (\d+) lines at once", "common/handler/output.h", "HANDLER_OUTPUT_BURST"),
    ("quredis-handler.7", r"and (\d+) a second after", "common/handler/output.h", "HANDLER_OUTPUT_RATE"),
    ("quredis-handler.7", r"longer than (\d+) KiB", "common/handler/input.c", "ARGUMENT_MAX"),
    ("quredis-handler.7", r"at most (\d+) bytes with its newline", "common/message/message.h", "MESSAGE_LINE_MAX"),
    ("quredis-handler.7", r"The id of the message: 1 to (\d+) of the bytes", "common/base/identifier.h", "IDENTIFIER_ID_MAX"),
    ("quredis.1", r"at most (\d+) letters", "common/base/identifier.h", "IDENTIFIER_ID_MAX"),
    ("quredis.1", r"\.Ar N ;\n(101) if not given", "admin/commands/peek.c", "LIMIT"),
    ("quredis.1", r"\.Ar N ;\n(50) if not given", "admin/dead_letters/list.c", "LIMIT"),
    ("quredis.1", r"dead letters of a queue; (\d+) and", "admin/doctor/command.c", "KEYS_MOST"),
    ("quredis.1", r"dead letters of a queue; \d+ and (\d+) if", "admin/doctor/command.c", "RECORDS_MOST"),
    ("quredis.1", r"each queue at most (\d+) findings are kept", "admin/doctor/findings.c", "KEPT_MAX"),
    ("quredisd.8", r"At most (\d+) bytes of a value", "common/log/log.h", "LOG_VALUE_MAX"),
    ("quredisd.8", r"did not end for (\d+) seconds after", "common/handler/process.c", "UNKILLABLE_MS"),
    ("quredisd.8", r"for (\d+) seconds beyond what its handler", "supervisor/children/watch.c", "ALLOWANCE_MS"),
    ("quredisd.8", r"\.Dv SIGABRT\nand (\d+) seconds later", "supervisor/children/watch.c", "CORE_MS"),
    ("quredisd.8", r"the master waits up to (\d+) seconds\nuntil", "supervisor/stop.c", "CONFIRM_MS"),
    ("quredisd.8", r"After (\d+) deaths within", "supervisor/children/policy.c", "BACKOFF_EVENTS"),
    ("quredisd.8", r"deaths within (\d+) seconds the queue", "supervisor/children/policy.c", "BACKOFF_WINDOW_MS"),
    ("quredisd.8", r"waits at least (\d+) seconds each", "supervisor/children/policy.c", "BACKOFF_DELAY_MS"),
    ("quredisd.8", r"after (\d+) within 300 seconds", "supervisor/children/policy.h", "POLICY_EVENTS"),
    ("quredisd.8", r"after 10 within (\d+) seconds", "supervisor/children/policy.c", "QUARANTINE_WINDOW_MS"),
    ("quredisd.8", r"or lives for (\d+) seconds, ends the row", "supervisor/children/policy.h", "POLICY_ALIVE_MS"),
]


def numbers_are_as_compiled(pages):
    wrong = []
    for page, pattern, path, name in NUMBERS:
        defined = re.search(rf"#define {name}\s+(?:INT64_C)?([\d(][\d\s*()]*)", (ROOT / path).read_text())
        there = re.search(pattern, pages[page])
        if not defined or not there:
            wrong.append(f"{page}: {pattern} ({path}: {name}): {'nothing such' if defined else 'no such constant'}")
            continue
        value = eval(defined[1])    # digits, * and parentheses only
        value = value // 1000 if name.endswith("_MS") else value // 1024 if "KiB" in pattern else value
        if int(there[1]) != value:
            wrong.append(f"{page}: {there[0]!r}: {name} is {value}")
    return wrong


CHECKS = [exit_statuses, numbers_are_as_compiled, diagnostics_are_said, keys_are_as_in_the_schema, events_and_fields_are_as_logged,
          options_of_quredisd, options_of_quredis, commands_and_their_arguments, record_fields_in_their_order,
          error_classes, counters, metrics, health_codes, states, verbs, json_keys, environment, header_keys, pages_refer_to_each_other]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_manual(check):
    assert check(read_pages()) == []


# (check, page, what stands there, what stands there instead)
WRONG = [
    (keys_are_as_in_the_schema, "quredis.conf.5", r"\.It Ic timeout Pq .*", ""),
    (keys_are_as_in_the_schema, "quredis.conf.5", r"\.It Ic timeout Pq .*", r".It Ic timeout Pq duration, 1ms to 365d; default 6m"),
    (keys_are_as_in_the_schema, "quredis.conf.5", r"\.It Ic timeout Pq .*", r"\g<0>\n.It Ic time_out Pq string; not set"),
    (events_and_fields_are_as_logged, "quredisd.8", r"\.It Li claim_lost .*", ""),
    (events_and_fields_are_as_logged, "quredisd.8", r"\.It Li claim_lost .*", ".It Li claim_lost Pq queue, worker"),
    (events_and_fields_are_as_logged, "quredisd.8", r"\.It Li claim_lost .*", ".It Li claim_lost Pq queue, worker, id, colour"),
    (events_and_fields_are_as_logged, "quredisd.8", r"\.It Li claim_lost .*", r"\g<0>\n.It Li claim_found Pq id"),
    (options_of_quredisd, "quredisd.8", r"\.It Fl -pid-file .*", ""),
    (options_of_quredisd, "quredisd.8", r"\.It Fl h , -help", r"\g<0> , -assist"),
    (options_of_quredis, "quredis.1", r"\.It Fl 0 , -null", ".It Fl -null"),
    (options_of_quredis, "quredis.1", r"\.It Fl j , -json", r".It Fl j , -jason"),
    (commands_and_their_arguments, "quredis.1", r"\.It Ic pause .*", ""),
    (commands_and_their_arguments, "quredis.1", r"\.It Ic peek Ar QUEUE TYPE", ".It Ic peek Ar QUEUE"),
    (record_fields_in_their_order, "quredis.1", r"\.It Li stderr\n", ""),
    (record_fields_in_their_order, "quredis.1", r"(\.It Li sha1\n)((?s:.*?))(\.It Li size\n)", r"\3\2\1"),
    (error_classes, "quredis.1", r"\.It Li Rejected", ".It Li Refused"),
    (counters, "quredis.1", r"\.It Li claim_lost", ".It Li lost"),
    (metrics, "quredis.conf.5", r"\.Li quredis_node_up", ".Li quredis_node_down"),
    (health_codes, "quredis.1", r" , leftovers , aside", " , aside"),
    (states, "quredisd.8", r"\.It Li breaker\n", ".It Li broken\n"),
    (states, "quredis.1", r"\.Li settling", ".Li ending"),
    (states, "quredis.1", r"\.It Li its lease", ".It Li nothing"),
    (verbs, "quredis.conf.5", r"\.Li HOLD", ".Li HOLD_ON"),
    (json_keys, "quredis.1", r"waiting_since", "since_when"),
    (environment, "quredisd.8", r"\.It Ev JOURNAL_STREAM", ".It Ev JOURNAL"),
    (environment, "quredis-handler.7", r"QUREDIS_DEADLINE", "QUREDIS_TIMEOUT"),
    (header_keys, "quredis-handler.7", r"\.It Li timeout", ".It Li time"),
    (diagnostics_are_said, "quredis.conf.5", r"every user can write", "anybody can write"),
    (exit_statuses, "quredis.1", r"\.It 66\n", ".It 67\n"),
    (exit_statuses, "quredisd.8", r"\.It 73\n", ""),
    (numbers_are_as_compiled, "quredis-handler.7", r"and 200 a second", "and 20 a second"),
    (numbers_are_as_compiled, "quredisd.8", r"After 5 deaths", "After 6 deaths"),
    (diagnostics_are_said, "quredisd.8", r"event=redis_evicts", "event=redis_drops"),
    (pages_refer_to_each_other, "quredis.1", r"\.Xr quredisd 8", ".Xr quredisd 1"),
    (pages_refer_to_each_other, "quredis.1", r"\.Sx COUNTERS", ".Sx FIGURES"),
]


@pytest.mark.parametrize("check, page, pattern, instead", WRONG, ids=lambda x: getattr(x, "__name__", None))
def test_a_wrong_page_is_seen(check, page, pattern, instead):
    pages = read_pages()
    changed = re.sub(pattern, instead, pages[page])
    assert changed != pages[page], "the pattern fits nothing"
    if instead == ".Sh SUPPORTED":
        assert check({**pages, page: changed})
    else:
        assert len(check({**pages, page: changed})) > len(check(pages))


# ---- how pages are written ----

@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc")
@pytest.mark.parametrize("page", PAGES)
def test_mandoc(page):
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(ROOT / "man" / page)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
@pytest.mark.parametrize("page", PAGES)
def test_groff(page):
    done = subprocess.run(["groff", "-mdoc", "-Tutf8", "-ww", "-z", str(ROOT / "man" / page)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.stdout == ""


def literal_blocks(page):
    return [re.sub(r"\\e", r"\\", re.sub(r"\\&|\\\(dq", lambda m: {r"\&": "", r"\(dq": '"'}[m[0]], b))
            for b in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed", page, re.M | re.S)]


def run_example(tmp, interpreter, message, env, edit=lambda s: s):
    script = next(b for b in literal_blocks(read_pages()["quredis-handler.7"]) if b.startswith(f"#!{interpreter}"))
    (tmp / "example").write_text(edit(script))
    return subprocess.run([interpreter, str(tmp / "example")], input=message, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={"PATH": "/usr/bin:/bin", **env}, timeout=60)


def test_the_shell_example_works(tmp):
    (tmp / "sums").mkdir()
    (tmp / "file").write_bytes(b"x")

    def edit(script):
        return script.replace("/srv/sums", str(tmp / "sums"))
    done = run_example(tmp, "/bin/sh", f"{tmp}/file".encode(), {"QUREDIS_ID": "a"}, edit)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp / "sums/a").read_text().startswith("2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881")
    done = run_example(tmp, "/bin/sh", b"/no/such\n", {"QUREDIS_ID": "b"}, edit)
    assert (done.returncode, done.stderr) == (65, b"no such file: /no/such\n")


def test_the_python_example_works(tmp):
    done = run_example(tmp, "/usr/bin/python3", b"no json", {"QUREDIS_ID": "a"})
    assert done.returncode == 65 and b"not a mail" in done.stderr
    # nobody listens there: to be tried again
    done = run_example(tmp, "/usr/bin/python3", b'{"to": "x@example.org", "text": "hi"}', {"QUREDIS_ID": "a"},
                       lambda s: s.replace('"localhost"', '"127.0.0.1", 1'))
    assert done.returncode == 75 and b"mail server" in done.stderr


def test_configuration_examples_are_good(tmp):
    """Those of quredis.conf(5) that are whole files parse; handlers are put where they stand."""
    blocks = [b for b in literal_blocks(read_pages()["quredis.conf.5"]) if "queues = (" in b and "..." not in b]
    assert len(blocks) >= 2
    for i, text in enumerate(blocks):
        text = re.sub(r'"/usr/local/bin/send-mail"', '"/bin/cat"', text)
        text = re.sub(r'"/usr/bin/python3"', '"/bin/cat"', text)
        text = re.sub(r"\n *run_as = .*", "", re.sub(r"\n *password_file = .*", "", text))
        (tmp / f"{i}.conf").write_text(text)
        done = subprocess.run([str(sources.QUREDISD), "-t", "-c", str(tmp / f"{i}.conf")], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


# ---- docs/ and README ----

def texts():
    return {str(p.relative_to(ROOT)): p.read_text() for p in [*sorted(ROOT.glob("*.md")), ROOT / "tests/README.md", *sorted((ROOT / "docs").glob("*.md"))]}


def dead_links(name, text):
    code_free = re.sub(r"```.*?```", "", text, flags=re.S)
    links = [m for m in re.findall(r"\]\(([^)\s]+)\)", code_free) if not re.match(r"[a-z]+:", m)]
    bad = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists():
            bad.append(f"{name}: {link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            bad.append(f"{name}: {link}: no such heading")
    return bad


def anchors(text):
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}


def paths_that_are_not_there(name, text):
    """`folder/file` in backquotes, for the folders of this tree."""
    named = re.findall(r"`((?:common|worker|sweeper|supervisor|admin|tests|man|docs|etc)/[\w./-]+)(?:::\w+)?`", text)
    return [f"{name}: {p}" for p in named if not (ROOT / p).exists()]


@pytest.mark.parametrize("name", sorted(texts()))
def test_links(name):
    text = texts()[name]
    assert dead_links(name, text) + paths_that_are_not_there(name, text) == []


def test_dead_links_are_seen():
    assert dead_links("docs/design.md", "[a](nowhere.md) [b](#no-such) [c](../man/quredisd.8) [d](https://x.example/)") == \
        ["docs/design.md: nowhere.md: no such file", "docs/design.md: #no-such: no such heading"]
    assert paths_that_are_not_there("x", "`common/log/log.h` `common/nothing.c` `tests/none.py::test_x`") == \
        ["x: common/nothing.c", "x: tests/none.py"]


def what_design_leaves_out(text):
    """Every script and every suffix of a key is in the design page."""
    keys = sources.read("common")["common/queue/keys.c"]
    own = set(re.findall(r'\[CONF_PRIVATE_\w+\] = "(:[a-z]+)', sources.read("common")["common/conf/conf.c"]))
    suffixes = own | set(re.findall(r'alloc_format\("%s(:[a-z]+)', keys)) | set(re.findall(r'alloc_format\("%s:%s(:[a-z]+)', keys))
    return [p.name for p in sorted((ROOT / "common/queue/scripts").rglob("*.lua")) if f"`{p.relative_to(ROOT)}`" not in text] + \
        [s for s in sorted(suffixes) if s not in text]


def test_design_names_every_script_and_key():
    text = (ROOT / "docs/design.md").read_text()
    assert what_design_leaves_out(text) == []
    assert what_design_leaves_out(text.replace("`common/queue/scripts/fence.lua`", "").replace(":paused", "")) == ["fence.lua", ":paused"]


# ---- parity ----

def parity_rows(text):
    return [(m[1], m[3]) for m in re.finditer(r"^\| ([ABC]\d+) \|(.*)\|(.*)\|$", text, re.M)]


def parity_problems(text):
    rows = parity_rows(text)
    names = [r for r, _ in rows]
    wrong = differences("row", names, PARITY_ROWS) + [f"row {r}: more than once" for r in set(names) if names.count(r) > 1]
    for row, proof in rows:
        tests = re.findall(r"`(tests/[\w./]+)(?:::(\w+))?`", proof)
        if not tests and not re.search(r"not yet|not applicable|documentation", proof):
            wrong.append(f"row {row}: neither a test nor why not")
        for path, test in tests:
            file = ROOT / path
            if not file.exists():
                wrong.append(f"row {row}: {path} does not exist")
            elif test and not re.search(rf"\b{test}\b", file.read_text()):
                wrong.append(f"row {row}: {path} has no {test}")
    return wrong


def test_parity():
    assert parity_problems((ROOT / "docs/parity.md").read_text()) == []


def test_parity_gaps_are_seen():
    text = (ROOT / "docs/parity.md").read_text()
    assert parity_problems(re.sub(r"^\| B7 .*\n", "", text, flags=re.M)) == ["row B7: not documented"]
    assert parity_problems(text + "| C1 | x | `tests/tree/test_docs.py::test_parity` |\n") == ["row C1: more than once"]
    assert parity_problems(re.sub(r"^\| B7 (.*)\|(.*)\|$", r"| B7 \1| `tests/tree/test_lint.py::test_nothing` |", text, flags=re.M)) == \
        ["row B7: tests/tree/test_lint.py has no test_nothing"]
    assert parity_problems(re.sub(r"^\| B7 (.*)\|(.*)\|$", r"| B7 \1| some day |", text, flags=re.M)) == \
        ["row B7: neither a test nor why not"]
