/* The names of commands, and which of them an error of Redis or of a hosted service refuses. */
#include <string.h>
#include <strings.h>

#include "common/redis/command_name.h"

#include "common/base/base.h"
#include "common/redis/redis.h"

static const char *const names[] = {
	[COMMAND_UNNAMED] = "a command",
#define X(name) [COMMAND_##name] = #name,
	COMMAND_NAMES(X)
#undef X
};

const char *command_name_text(enum command_name command)
{
	return names[(size_t)command < nitems(names) ? command : COMMAND_UNNAMED];
}

enum command_name command_name_find(const char *name, size_t len)
{
	const char *bar = memchr(name, '|', len);

	len = bar == NULL ? len : (size_t)(bar - name);
	for (size_t i = 1; i < nitems(names); i++)
		if (strlen(names[i]) == len && strncasecmp(names[i], name, len) == 0)
			return (enum command_name)i;
	return COMMAND_UNNAMED;
}

/* The quotes differ: Redis 7 writes 'XADD', Redis 5 and 6 `XADD`. The arguments of the command follow in quotes, so the
 * first name counts. */
enum command_name command_name_refused(const char *text)
{
	enum redis_error_class class = redis_error_classify(text);

	if (class != REDIS_ERROR_NO_COMMAND && class != REDIS_ERROR_PERMISSION)
		return COMMAND_UNNAMED;
	for (const char *at = text; (at = strpbrk(at, "'`\"")) != NULL; at++) {
		size_t len = strcspn(at + 1, "'`\" ");
		enum command_name found = command_name_find(at + 1, len);

		if (at[1 + len] != '\0' && at[1 + len] != ' ' && found != COMMAND_UNNAMED)
			return found;
	}
	return COMMAND_UNNAMED;
}
