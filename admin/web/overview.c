/* The overview: one document with the table of holds and the answers of ls, stats, health and nodes, made in a
 * child. */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/web/call.h"
#include "admin/web/web.h"

#include "common/base/base.h"
#include "common/holds/holds.h"

json_t *web_answer_of(const struct admin *server, struct options *options, const char *command, const char *queue,
    int *status)
{
	char *text = NULL, *operand = alloc_string(queue);
	size_t len = 0;
	FILE *file = open_memstream(&text, &len);
	json_t *answer;

	if (file == NULL)
		alloc_failed();
	*status = web_command_run(server, options, command, &operand, queue == NULL ? 0 : 1, file);
	fclose(file);
	free(operand);
	answer = json_loadb(text, len, 0, NULL);
	free(text);
	return answer;
}

/* The worst first. The pages have no list of states. */
static json_t *table_of_holds(void)
{
	json_t *all = json_array();

	for (int i = HOLDS - 1; i >= HOLD_NONE; i--)
		json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:s*}", "state", holds_table[i].name, "level",
		    hold_level_names[holds_table[i].level], "text", holds_table[i].text, "code", holds_table[i].code));
	return all;
}

json_t *web_overview(const struct admin *server, int *status)
{
	static const struct { const char *key, *command; } parts[] =
	    { { "queues", "ls" }, { "stats", "stats" }, { "health", "health" }, { "nodes", "nodes" } };
	json_t *all = json_object();

	json_object_set_new(all, "time", json_integer(clock_realtime_ms()));
	json_object_set_new(all, "holds", table_of_holds());
	for (size_t i = 0; i < nitems(parts); i++) {
		struct options options = options_none();
		json_t *answer = web_answer_of(server, &options, parts[i].command, NULL, status);

		/* EX_CONFIG: one queue cannot be read, and the others are shown */
		if (answer == NULL && *status != EX_CONFIG) {
			json_decref(all);
			return NULL;
		}
		json_object_set_new(all, parts[i].key, answer != NULL ? answer : json_null());
	}
	return all;
}

int web_overview_print(void *arg)
{
	const struct web *w = arg;
	int status;
	json_t *all = web_overview(w->a, &status);

	if (all == NULL)
		return status == EX_OK ? EX_SOFTWARE : status;
	json_dumpf(all, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(all);
	return EX_OK;
}
