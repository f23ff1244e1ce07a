/* The scripts of common/queue/scripts, compiled into the binary. They are called by the SHA1 of their text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/scripts.h"

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/queue/moves.h"

#define SHARED(name) ".incbin \"common/queue/scripts/shared/" name ".lua\"\n"
#define ADD SHARED("add")
#define ENTRY SHARED("entry")
#define EMITTED SHARED("emitted")
#define HISTORY SHARED("history")
#define LAYOUT SHARED("layout")
#define TRACES SHARED("traces")
#define RECORD SHARED("record")
#define TRANSFER SHARED("transfer")
#define CANCELLED SHARED("cancelled")
#define UNREAD SHARED("unread")
#define APART SHARED("apart")
#define OWN SHARED("own")
#define NODES SHARED("nodes")
#define OVERLAP SHARED("overlap")
#define SEATS SHARED("seats")
#define SEATED SHARED("seated")
#define STAY SHARED("stay")
#define X(name, before)                                                                            \
	__asm__(".pushsection .rodata\n"                                                           \
		"queue_script_" #name ":\n" before                                                 \
		".incbin \"common/queue/scripts/" #name ".lua\"\n"                                 \
		"queue_script_" #name "_end:\n"                                                    \
		".byte 0\n"                                                                        \
		".popsection\n");                                                                  \
	extern const char queue_script_##name[], queue_script_##name##_end[];
QUEUE_SCRIPTS(X)
#undef X

#define SCRIPT_ARGUMENTS_FEW 96

static struct script_text text_of(enum queue_script script)
{
#define X(name, before) [QUEUE_SCRIPT_##name] = { queue_script_##name, queue_script_##name##_end },
	static const struct script_text texts[] = { QUEUE_SCRIPTS(X) };
#undef X
	return texts[script];
}

/* Redis gets a script without its comment lines, which are nearly half of all bytes. Their ends stay, so the numbers of
 * the lines do, too. */
static void strip_comments(enum queue_script script, struct buffer *out)
{
	struct script_text t = text_of(script);

	for (const char *line = t.start, *next; line < t.end; line = next) {
		const char *first = line + strspn(line, " ");

		next = strchr(line, '\n') + 1;
		if (strncmp(first, "--", 2) == 0)
			first = next - 1;
		buffer_append(out, first, (size_t)(next - first));
	}
}

/* Computed at the first use, and constant from then on. */
static const char *sha1_of(enum queue_script script)
{
	static char sums[QUEUE_SCRIPT_COUNT][ENCODE_SHA1_SIZE];
	struct buffer text = {0};

	if (sums[script][0] == '\0') {
		strip_comments(script, &text);
		encode_sha1(text.data, text.len, sums[script]);
		buffer_free(&text);
	}
	return sums[script];
}

const char *queue_script_line(const char *sha1, long number, struct script_text *line)
{
#define X(name, before) [QUEUE_SCRIPT_##name] = #name,
	static const char *const names[] = { QUEUE_SCRIPTS(X) };
#undef X
	int script = 0;

	while (script < QUEUE_SCRIPT_COUNT &&
	    strncmp(sha1, sha1_of((enum queue_script)script), ENCODE_SHA1_SIZE - 1) != 0)
		script++;
	if (script == QUEUE_SCRIPT_COUNT || number < 1)
		return NULL;
	line->end = text_of((enum queue_script)script).start - 1;
	while (number-- > 0) {
		line->start = line->end + 1;
		line->end = strchr(line->start, '\n');
		if (line->end == NULL)
			return NULL;
	}
	return names[script];
}

void queue_scripts_load(struct redis *r)
{
	struct buffer text = {0};

	for (int i = 0; i < QUEUE_SCRIPT_COUNT; i++) {
		buffer_clear(&text);
		strip_comments((enum queue_script)i, &text);
		redis_appendf(r, "SCRIPT LOAD %b", text.data, text.len);
	}
	buffer_free(&text);
}

struct script_arg script_number(struct script_number *room, int64_t value)
{
	return (struct script_arg){ room->text, (size_t)snprintf(room->text, sizeof(room->text), "%" PRId64, value) };
}

struct script_arg queue_script_seconds(struct script_number *room, int64_t ms)
{
	int n = ms % 1000 == 0 ? snprintf(room->text, sizeof(room->text), "%" PRId64, ms / 1000) :
	    snprintf(room->text, sizeof(room->text), "%" PRId64 ".%03" PRId64, ms / 1000, ms % 1000);

	return (struct script_arg){ room->text, (size_t)n };
}

struct script_arg script_string(const char *s)
{
	return (struct script_arg){ s == NULL ? "" : s, s == NULL ? 0 : strlen(s) };
}

size_t script_entry(const struct queue_entry *e, struct script_entry *room, struct script_arg args[SCRIPT_ENTRY_ARGS])
{
	size_t head = e->len < QUEUE_ENTRY_ENDS ? e->len : QUEUE_ENTRY_ENDS;
	size_t tail = e->len - head < QUEUE_ENTRY_ENDS ? e->len - head : QUEUE_ENTRY_ENDS;

	if (e->at == QUEUE_ANYWHERE) {
		args[0] = args[1] = args[3] = script_string(NULL);
		args[2] = (struct script_arg){ e->raw, e->len };
	} else {
		if (e->of > 0)
			snprintf(room->at, sizeof(room->at), "%" PRId64 "/%" PRId64 "/%" PRId64, e->at, e->of,
			    e->moved);
		else
			snprintf(room->at, sizeof(room->at), "%" PRId64, e->at);
		args[0] = script_string(room->at);
		args[1] = script_number(&room->len, (int64_t)e->len);
		args[2] = (struct script_arg){ e->raw, head };
		args[3] = (struct script_arg){ (e->tail == NULL ? e->raw + e->len : e->tail + QUEUE_ENTRY_ENDS) - tail,
		    tail };
	}
	return SCRIPT_ENTRY_ARGS;
}

void queue_script(struct redis *r, enum queue_script script, size_t nkeys, const char *const *keys, size_t nargs,
    const struct script_arg *args)
{
	const char *few[SCRIPT_ARGUMENTS_FEW], **argv = few;
	size_t few_lens[SCRIPT_ARGUMENTS_FEW], *lens = few_lens, argc = 0;
	char count[24];

	if (3 + nkeys + nargs > SCRIPT_ARGUMENTS_FEW) {
		argv = alloc_zero(3 + nkeys + nargs, sizeof(*argv));
		lens = alloc_zero(3 + nkeys + nargs, sizeof(*lens));
	}
	snprintf(count, sizeof(count), "%zu", nkeys);
	argv[argc++] = "EVALSHA";
	argv[argc++] = sha1_of(script);
	argv[argc++] = count;
	for (size_t i = 0; i < nkeys; i++)
		argv[argc++] = keys[i];
	for (size_t i = 0; i < argc; i++)
		lens[i] = strlen(argv[i]);
	for (size_t i = 0; i < nargs; i++, argc++) {
		argv[argc] = args[i].data;
		lens[argc] = args[i].len;
	}
	redis_append(r, argc, argv, lens);
	if (argv != few) {
		free(argv);
		free(lens);
	}
}
