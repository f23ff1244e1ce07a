/* The reasons of one report of health as a sentence for people, the worst first. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/facts/facts.h"
#include "common/holds/holds.h"

#define DATED_MS 15000			/* an older report says so where it stands beside figures of this moment */

static bool has_code(const json_t *document, const char *name)
{
	const json_t *reason;
	size_t i;

	json_array_foreach(json_object_get(document, "reasons"), i, reason) {
		const char *code = json_string_value(json_object_get(reason, "code"));

		if (code != NULL && name != NULL && strcmp(code, name) == 0)
			return true;
	}
	return false;
}

/* A reason of its health says what its state says. The words of a queue that runs are those of a code, too. */
static bool is_said(const json_t *document, enum hold hold)
{
	if (hold == HOLD_NONE)
		return has_code(document, codes_table[HEALTH_HANDLER_NOT_READY].name) ||
		    has_code(document, codes_table[HEALTH_SCALED].name);
	return hold != HOLDS && has_code(document, holds_table[hold].code);
}

/* Why the queue does not fetch on the node of the report, or lacks workers there, unless a reason of its health says
 * that. */
static void append_state(struct buffer *all, const json_t *document)
{
	const char *state = json_string_value(json_object_get(document, "state"));
	const char *why = json_string_value(json_object_get(document, "reason"));
	enum hold hold = holds_by_name(state);

	if (state == NULL || (hold == HOLD_NONE && why == NULL) || is_said(document, hold))
		return;
	buffer_format(all, "%s%s%s%s", all->len > 0 ? "; " : "", hold == HOLD_NONE ? "" : state,
	    hold == HOLD_NONE || why == NULL ? "" : ": ", why == NULL ? "" : why);
}

/* Any reason of health is worse than a state that an operator wants, or that ends by itself. */
static bool state_can_wait(const json_t *document)
{
	enum hold hold = holds_by_name(json_string_value(json_object_get(document, "state")));

	return hold != HOLDS && holds_table[hold].level < HOLD_WARNING;
}

char *health_reasons(const struct queue_health *report, int64_t server_ms)
{
	struct buffer all = {0};
	bool recovering = false;
	const json_t *reason;
	char elapsed[UNITS_SIZE], *text;
	size_t i;

	if (!state_can_wait(report->document))
		append_state(&all, report->document);
	json_array_foreach(json_object_get(report->document, "reasons"), i, reason) {
		const char *said = json_string_value(json_object_get(reason, "text"));
		const json_t *next = json_object_get(reason, facts_table[FACT_NEXT_ATTEMPT].key);

		if (said != NULL)
			buffer_format(&all, "%s%s", all.len > 0 ? "; " : "", said);
		if (said != NULL && next != NULL)
			buffer_format(&all, "; next attempt in %s", units_elapsed(json_integer_value(next), elapsed));
		recovering = recovering || json_is_true(json_object_get(reason, "recovering"));
	}
	if (state_can_wait(report->document))
		append_state(&all, report->document);
	if (recovering && all.len > 0)
		buffer_format(&all, "; next look in %s",
		    units_elapsed(report->next_ms > server_ms ? report->next_ms - server_ms : 0, elapsed));
	text = alloc_copy(all.data == NULL ? "" : all.data, all.len);
	buffer_free(&all);
	return text;
}

char *health_reasons_dated(const struct queue_health *report, int64_t server_ms)
{
	char *text = health_reasons(report, server_ms), *dated, ago[OUTPUT_AGO_SIZE];

	if (text[0] == '\0' || reports_doubt(report) || server_ms - report->at_ms < DATED_MS)
		return text;
	dated = alloc_format("%s: %s", output_ago(server_ms - report->at_ms, ago), text);
	free(text);
	return dated;
}
