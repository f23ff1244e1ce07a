"""What the sources and the programs say there is: keys, log events, options, commands, fields."""
import functools
import os
import re
import subprocess
import tempfile

from .paths import QUREDIS, QUREDISD, ROOT

FOLDERS = ("common", "worker", "sweeper", "supervisor", "admin")
DAEMON = FOLDERS[:-1]


@functools.lru_cache(None)
def read(*folders):
    """path -> text without comments; strings stay."""
    token = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', re.S)
    return {str(p.relative_to(ROOT)): token.sub(lambda m: m[0] if m[0][0] in "\"'" else " ", p.read_text())
            for folder in folders for p in sorted((ROOT / folder).rglob("*.c"))}


@functools.lru_cache(None)
def strings():
    """Every string of the programs; adjacent ones are one."""
    found = []
    for text in read(*FOLDERS).values():
        end = -1
        for m in re.finditer(r'"((?:\\.|[^"\\])*)"|\'(?:\\.|[^\'\\])*\'', text):
            if m[1] is None:
                continue
            if end >= 0 and text[end:m.start()].isspace():
                found[-1] += m[1]
            else:
                found.append(m[1])
            end = m.end()
    return found


# ---- configuration ----

_SCHEMA_DUMP = r"""
#include <stdio.h>
#include "common/conf/schema.h"
#include "common/base/units.h"

static const char *const types[CONF_TYPES] = {
	[CONF_TYPE_BOOL] = "boolean", [CONF_TYPE_INT] = "integer", [CONF_TYPE_COUNT] = "integer",
	[CONF_TYPE_DURATION] = "duration", [CONF_TYPE_SIZE] = "size", [CONF_TYPE_FLOAT] = "number",
	[CONF_TYPE_STRING] = "string", [CONF_TYPE_PATH] = "absolute path", [CONF_TYPE_STRINGS] = "list of strings",
	[CONF_TYPE_OCTAL] = "octal string", [CONF_TYPE_RATE] = "rate", [CONF_TYPE_CODES] = "group of lists",
};

static void range(const struct conf_key *k)
{
	char least[UNITS_SIZE], most[UNITS_SIZE];

	if (k->type == CONF_TYPE_DURATION)
		printf(", %s to %s", units_format_duration(k->min, least), units_format_duration(k->max, most));
	else if (k->type == CONF_TYPE_SIZE)
		printf(", %s to %s", units_format_size(k->min, least), units_format_size(k->max, most));
	else if (k->type == CONF_TYPE_OCTAL)
		printf(", %03llo to %03llo", (unsigned long long)k->min, (unsigned long long)k->max);
	else if (k->type == CONF_TYPE_INT || k->type == CONF_TYPE_COUNT || k->type == CONF_TYPE_FLOAT)
		printf(", %lld to %lld", (long long)k->min, (long long)k->max);
}

static void list(const struct conf_schema *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct conf_key *k = &s->keys[i];

		printf("%s%s\t", s->prefix, k->path);
		if (k->type != CONF_TYPE_CHOICE)
			fputs(types[k->type], stdout);
		for (int c = 0; k->type == CONF_TYPE_CHOICE && k->choices[c] != NULL; c++)
			printf("%s%s", c == 0 ? "" : k->choices[c + 1] == NULL ? " or " : ", ", k->choices[c]);
		range(k);
		if (k->inherits != NULL)
			printf("; default %s", k->inherits);
		else if (k->type != CONF_TYPE_CODES && k->fallback != NULL)
			printf("; default %s", k->fallback);
		else if (k->type != CONF_TYPE_CODES)
			printf("; not set");
		putchar('\n');
	}
}

int main(void)
{
	list(&conf_schema_global);
	list(&conf_schema_queue);
	list(&conf_schema_schedule);
	list(&conf_schema_throttle);
	return 0;
}
"""


@functools.lru_cache(None)
def conf_keys():
    """key -> what conf(5) says of it: "duration, 1s to 1h; default 30s". Keys of the lists begin with queue., schedule. or throttle."""
    with tempfile.TemporaryDirectory(prefix="qr.") as tmp:
        with open(f"{tmp}/dump.c", "w") as f:
            f.write(_SCHEMA_DUMP)
        subprocess.run([*os.environ.get("CC", "cc").split(), "-std=gnu17", "-D_GNU_SOURCE", "-I.", "-o", f"{tmp}/dump", f"{tmp}/dump.c",
                        "common/conf/schema.c", "common/base/units.c"], cwd=ROOT, check=True)
        lines = subprocess.check_output([f"{tmp}/dump"], text=True).splitlines()
    return dict(line.split("\t") for line in lines)


# ---- log events ----

def _balanced(text, start):
    """End of the parenthesis that opens at start; strings are skipped."""
    depth = 0
    for m in re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[()]').finditer(text, start):
        depth += {"(": 1, ")": -1}.get(m[0], 0)
        if depth == 0:
            return m.start()
    raise ValueError(text[start:start + 80])


def _arguments(text):
    """Splits at the commas that are in no parenthesis and no string."""
    parts, depth, begin = [], 0, 0
    for m in re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[(){}\[\],]').finditer(text):
        if m[0] in "({[":
            depth += 1
        elif m[0] in ")}]":
            depth -= 1
        elif m[0] == "," and depth == 0:
            parts.append(text[begin:m.start()].strip())
            begin = m.end()
    return [*parts, text[begin:].strip()]


def _functions(text):
    """(name, parameters, body) of each function definition."""
    for m in re.finditer(r"^[A-Za-z_][^;{}()#=]*?\b(\w+)\(((?:[^;{}()]|\([^()]*\))*)\)\s*\{", text, re.M):
        end = text.find("\n}", m.end())
        yield m[1], m[2], text[m.end():end]


def _calls(text, name):
    for m in re.finditer(rf"\b{name}\(", text):
        yield _arguments(text[m.end():_balanced(text, m.end() - 1)])


def _event_names(argument, function, file):
    """The literals an event argument can be: in place, assigned before, or given by the callers."""
    names = re.findall(r'"([a-z_]+)"', argument)
    if names or not re.fullmatch(r"\w+", argument):
        return names
    name, parameters, body = function
    for value in re.findall(rf"\b{argument} = ([^;]+);", body):
        names += re.findall(r'"([a-z_]+)"', value)
    position = [p.split()[-1].lstrip("*") if p.split() else "" for p in _arguments(parameters)]
    if argument in position:
        for other in _functions(file):
            for call in _calls(other[2], name):
                names += _event_names(call[position.index(argument)], other, file)
    return names


def _fields(arguments, body):
    """Names of the fields of one call; a variable stands for those it was initialised with."""
    fields = set()
    for argument in arguments:
        if re.fullmatch(r"&?[a-z]\w*", argument):
            name = argument.lstrip("&")
            argument = " ".join(re.findall(rf"struct log_field {name} = ([^;]+);", body))
        fields |= set(re.findall(r'\blog_(?:str|int|bytes)\("(\w+)"', argument))
    return fields


def _bound(path):
    """The fields that log_bind() adds to what this file logs: it runs in the process of a worker."""
    return {"queue", "worker"} if re.match(r"worker/|common/(?:handler|persistent)", path) else set()


@functools.lru_cache(None)
def log_events():
    """event -> names of its fields, over all places that log it."""
    events = {}
    for path, text in read(*DAEMON).items():
        for function in _functions(text):
            body = function[2]
            calls = [a for n in ("debug", "info", "warning", "error") for a in _calls(body, f"log_{n}")]
            calls += [a[1:] for a in _calls(body, "log_event")] + [a[1:] for a in _calls(body, "render")]
            for arguments in calls:
                for name in _event_names(arguments[0], function, text):
                    events.setdefault(name, set()).update(_fields(arguments[1:], body) | _bound(path))
    return events


def log_calls_without_event():
    """Calls whose event could not be read: then log_events() is not all."""
    lost = []
    for path, text in read(*DAEMON).items():
        n = len(re.findall(r"\blog_(?:debug|info|warning|error)\(|\blog_event\(", text))
        seen = 0
        for function in _functions(text):
            for level in ("debug", "info", "warning", "error", "event"):
                for arguments in _calls(function[2], f"log_{level}"):
                    event = arguments[1 if level == "event" else 0]
                    seen += bool(_event_names(event, function, text))
        if seen != n:
            lost.append(f"{path}: {n} calls, {seen} understood")
    return lost


# ---- names in tables ----

def _table(path, name):
    return re.findall(r'"([^"]+)"', re.search(rf"\b{name}\[\w*\] = \{{(.*?)\}};", read(path.split("/")[0])[path], re.S)[1])


def record_fields():
    return _table("common/queue/records.c", "record_fields")


def counters():
    return [row["name"] for row in counter_rows()]


def metrics():
    """name -> the identifier of its row in the table."""
    rows = re.findall(r'X\((\w+), "(quredis_\w+)"', (ROOT / "common/facts/exposition.h").read_text())
    return {name: row for row, name in rows}


def _rows(path):
    """Each row of a table X(NAME, …): the name, the text behind it, and a dict of the columns that it sets by their names."""
    rows = re.split(r"\bX\(([A-Z_]+), ", (ROOT / path).read_text())
    for name, row in zip(rows[1::2], rows[2::2]):
        cells = re.findall(r'\.(\w+) = (?:"([^"]*)"|(\w+(?: \| \w+)*))', row)
        yield name, row, {k: text or word for k, text, word in cells}


def facts():
    """The rows of the table of figures: a dict of the columns that each row sets, with "metric" as the name of the metric."""
    names = {row: name for name, row in metrics().items()}
    found = [{"id": name, **cells} for name, _, cells in _rows("common/facts/table.h")]
    return [{**f, "metric": names[f["metric"].removeprefix("METRIC_")]} if "metric" in f else f for f in found]


def counter_rows():
    """The rows of the table of counters, in the same form."""
    return [{"id": name, "name": re.match('"(\\w+)"', row)[1], **cells} for name, row, cells in _rows("common/facts/counters.h")]


def health_codes():
    """Those of figures, and those of holds, of which several may share one."""
    figures = [row["name"] for _, _, row in _rows("common/holds/codes.h")]
    return list(dict.fromkeys(figures + [row["code"] for row in holds() if "code" in row]))


def holds():
    """The rows of the table of holds by rank: a dict of the columns that each row sets."""
    rows = re.split(r"^\t\[HOLD_\w+\] = ", (ROOT / "common/holds/table.c").read_text(), flags=re.M)[1:]
    return [dict(re.findall(r'\.(\w+) = "?(.*?)"?(?:,\s|\s\},)', row, re.S)) for row in rows]


def queue_states():
    return [row["name"] for row in holds()]


def worker_states():
    return _table("common/board/slot.c", "slot_state_names")


def what_workers_wait_for():
    return _table("common/board/slot.c", "waits_for")


def verbs_of_exec():
    return re.findall(r"\[VERB_(\w+)\] = \{ \d+, true,", read("common")["common/handler/reply.c"])


def error_classes():
    """Every CamelCase string that worker or sweeper puts into a record."""
    texts = [*read("worker", "sweeper").values(), read("common")["common/queue/purge.c"], (ROOT / "common/message/message.h").read_text()]
    return {c for text in texts for c in re.findall(r'"((?:TTL)?(?:[A-Z][a-z]+){1,3})"', text)}


def environment():
    """Variables the programs read."""
    return {v for text in read(*FOLDERS).values() for v in re.findall(r'\b(?:secure_)?getenv\("(\w+)"\)', text)} | \
        {v for text in read("common").values() for v in re.findall(r'\{ "(QUREDIS_\w+)", "[\w.]+" \}', text)}


def handler_environment():
    text = read("common")["common/handler/env.c"]
    return set(re.findall(r'"(QUREDIS_\w+|TRACEPARENT)=[%"]', text)) | set(re.findall(r'"(\w+)"', re.search(r"passed\[\] = \{(.*?)\}", text, re.S)[1]))


def json_keys():
    """Keys that the command line writes: those of its columns."""
    return {k for text in read("admin").values() for k in re.findall(r'\{ "(\w+)", (?:"[^"]*"|NULL), COLUMN_\w+ \}', text)}


def status_keys():
    text = read("supervisor")["supervisor/status.c"]
    packed = "".join(text[m.end():_balanced(text, m.end() - 1)] for m in re.finditer(r"json_pack\(", text))
    figures = {f["key"].strip('"') for f in facts() if f.get("scope") == "FACT_OF_HOST" and "IN_STATUS" in f.get("in", "")}
    return set(re.findall(r'(?<![:{])"([a-z_]+)"', packed)) | figures


def exit_statuses(*paths):
    """Numbers of the sysexits(3) names, and of STATUS_ constants, in these files; 71 for memory (common/base/alloc.c)."""
    numbers = {"OK": 0, "USAGE": 64, "DATAERR": 65, "NOINPUT": 66, "NOUSER": 67, "NOHOST": 68, "UNAVAILABLE": 69, "SOFTWARE": 70,
               "OSERR": 71, "OSFILE": 72, "CANTCREAT": 73, "IOERR": 74, "TEMPFAIL": 75, "PROTOCOL": 76, "NOPERM": 77, "CONFIG": 78}
    texts = [text for path, text in read(*FOLDERS).items() if path.startswith(paths)]
    return {str(n) for text in texts for n in
            [*(numbers[x] for x in re.findall(r"\bEX_([A-Z]+)\b", text)), *re.findall(r"#define STATUS_\w+ (\d+)", text)]} | {"0", "71"}


# ---- programs ----

@functools.lru_cache(None)
def said(program, *words):
    done = subprocess.run([str(program), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60)
    return done.stdout


def commands():
    """name and arguments -> as help shows them."""
    return re.findall(r"^  quredis (.*?) +# ", said(QUREDIS, "help"), re.M)


def _options(text):
    return set(re.findall(r"(?<![\w-])(--?[A-Za-z0-9][\w-]*)", "\n".join(
        re.split(r"  +#|\s{2,}", line.strip())[0] for line in text.splitlines() if line.lstrip().startswith("-"))))


def quredis_options():
    names = [re.match(r"[a-z]+(?: [a-z]+)?", c)[0] for c in commands()]
    return set().union(*(_options(said(QUREDIS, "help", *n.split())) for n in ["options", *names]))


def quredisd_options():
    return _options(said(QUREDISD, "--help"))
