/* What INFO says, taken apart. What follows from it is for those who ask. */
#include <string.h>

#include "common/redis/info.h"

bool redis_info_value(const char *info, size_t len, const char *name, char *out, size_t out_size)
{
	size_t name_len = strlen(name);
	const char *end = info + len;

	for (const char *line = info; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const char *stop = newline == NULL ? end : newline;

		if ((size_t)(stop - line) > name_len && memcmp(line, name, name_len) == 0 && line[name_len] == ':') {
			const char *value = line + name_len + 1;
			size_t n = (size_t)(stop - value);

			if (n > 0 && value[n - 1] == '\r')
				n--;
			if (n >= out_size)
				return false;
			memcpy(out, value, n);
			out[n] = '\0';
			return true;
		}
		line = stop + 1;
	}
	return false;
}

void redis_identity_read(struct redis_identity *id, const char *info, size_t len)
{
	redis_info_value(info, len, "run_id", id->run_id, sizeof(id->run_id));
	redis_info_value(info, len, "master_replid", id->replid, sizeof(id->replid));
}

bool redis_identity_known(const struct redis_identity *id)
{
	return id->run_id[0] != '\0';
}

bool redis_identity_same(const struct redis_identity *a, const struct redis_identity *b)
{
	return strcmp(a->run_id, b->run_id) == 0 && strcmp(a->replid, b->replid) == 0;
}

bool redis_policy_evicts(const char *policy)
{
	return strncmp(policy, "allkeys-", 8) == 0 || strncmp(policy, "volatile-", 9) == 0;
}
