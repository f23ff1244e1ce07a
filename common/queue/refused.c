/* Finds the refused command in an error of Redis, also in one that only names the line of a script. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/refused.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

#define LOCATION "@user_script:"

/* Where a script failed: "... script: SHA1, on @user_script:22." (Redis 7), or "(call to f_SHA1): @user_script:22: ..."
 * (Redis 5 and 6). */
struct script_location {
	const char *name;
	struct script_text line;
	long number;
};

static const char *find_sha1(const char *text)
{
	for (size_t n; *text != '\0'; text += n == 0 ? 1 : n) {
		n = strspn(text, "0123456789abcdef");
		if (n == ENCODE_SHA1_SIZE - 1)
			return text;
	}
	return NULL;
}

static bool locate(const char *error, struct script_location *l)
{
	const char *sha1 = find_sha1(error), *at = strstr(error, LOCATION);

	if (sha1 == NULL || at == NULL)
		return false;
	l->number = strtol(at + sizeof(LOCATION) - 1, NULL, 10);
	l->name = queue_script_line(sha1, l->number, &l->line);
	return l->name != NULL;
}

/* The commands in a line of a script: 'NAME' each. Returns the only one; UNNAMED: there are several, or none. */
static enum command_name command_in(struct script_text line)
{
	enum command_name found = COMMAND_UNNAMED;

	for (const char *at = line.start; at < line.end; at++) {
		size_t len = 0;
		enum command_name command;

		while (*at == '\'' && at + 1 + len < line.end && isupper((unsigned char)at[1 + len]))
			len++;
		command = len == 0 || at[1 + len] != '\'' ? COMMAND_UNNAMED : command_name_find(at + 1, len);
		if (command == COMMAND_UNNAMED)
			continue;
		if (found != COMMAND_UNNAMED && found != command)
			return COMMAND_UNNAMED;
		found = command;
	}
	return found;
}

static bool refuses_command(enum redis_error_class class)
{
	return class == REDIS_ERROR_NO_COMMAND || class == REDIS_ERROR_PERMISSION;
}

bool queue_refuses_key(const char *text)
{
	return strstr(text, "access") != NULL && strstr(text, "key") != NULL;
}

enum command_name queue_refused_command(const char *text)
{
	enum command_name command = command_name_refused(text);
	struct script_location l;

	if (command != COMMAND_UNNAMED || !refuses_command(redis_error_classify(text)) || queue_refuses_key(text) ||
	    !locate(text, &l))
		return command;
	return command_in(l.line);
}

const char *queue_refusal_advice(const char *text, char room[QUEUE_ADVICE_SIZE])
{
	enum redis_error_class class = redis_error_classify(text);
	enum command_name command = queue_refused_command(text);
	char what[64];
	struct script_location l;

	if (!refuses_command(class) || queue_refuses_key(text))
		return NULL;
	if (command == COMMAND_SELECT)
		return strcpy(room,
		    "use database 0: write no database into redis.url. To share a server use redis.prefix");
	if (command != COMMAND_UNNAMED)
		snprintf(what, sizeof(what), "%s", command_name_text(command));
	else if (locate(text, &l))
		snprintf(what, sizeof(what), "a command in line %ld of the script %s", l.number, l.name);
	else
		return NULL;
	if (class == REDIS_ERROR_PERMISSION)
		snprintf(room, QUEUE_ADVICE_SIZE, "quredis needs %s: grant it to the Redis user with ACL SETUSER",
		    what);
	else
		snprintf(room, QUEUE_ADVICE_SIZE,
		    "quredis needs %s, which this server lacks, has renamed or refuses: quredis doctor shows all such "
		    "commands", what);
	return room;
}

bool queue_fetch_has_substitute(const char *text)
{
	enum command_name command = queue_refused_command(text);

	return command == COMMAND_BRPOPLPUSH || command == COMMAND_RPOPLPUSH;
}
