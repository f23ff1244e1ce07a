/* Where a server is: redis:// and unix:// addresses taken apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "common/redis/redis.h"

#include "common/base/base.h"

#define REDIS_PORT 6379

void redis_target_free(struct redis_target *t)
{
	free(t->unix_path);
	free(t->host);
	free(t->user);
	if (t->password != NULL)
		explicit_bzero(t->password, strlen(t->password));
	free(t->password);
	free(t->shown);
	*t = (struct redis_target){0};
}

static int refuse(char *error, size_t size, const char *url, const char *why)
{
	const char *at = strrchr(url, '@');	/* what stands before it may be a password */

	snprintf(error, size, "\"%s\": %s", at != NULL ? at + 1 : url, why);
	return -1;
}

static int parse_number(const char *s, int max, int *out)
{
	const char *why = NULL;
	long long n = strtonum(s, 0, max, &why);

	if (why != NULL || s[0] == '\0')
		return -1;
	*out = (int)n;
	return 0;
}

static int parse_unix(struct redis_target *t, char *rest, const char *url, char *error, size_t size)
{
	char *query = strchr(rest, '?');

	if (query != NULL) {
		*query++ = '\0';
		if (strncmp(query, "db=", 3) != 0 || parse_number(query + 3, 1 << 20, &t->db) == -1)
			return refuse(error, size, url, "expected ?db=NUMBER behind the path");
	}
	if (rest[0] != '/')
		return refuse(error, size, url, "expected unix:///absolute/path");
	if (strlen(rest) > 107)
		return refuse(error, size, url, "the path of a unix socket has at most 107 bytes");
	t->unix_path = alloc_string(rest);
	return 0;
}

/* user:password@ ; percent signs stay as they are */
static char *parse_login(struct redis_target *t, char *rest)
{
	char *at = strrchr(rest, '@'), *colon;

	if (at == NULL)
		return rest;
	*at = '\0';
	colon = strchr(rest, ':');
	if (colon != NULL) {
		*colon = '\0';
		if (colon[1] != '\0')
			t->password = alloc_string(colon + 1);
	}
	if (rest[0] != '\0')
		t->user = alloc_string(rest);
	return at + 1;
}

static int parse_tcp(struct redis_target *t, char *rest, const char *url, char *error, size_t size)
{
	char *slash, *port = NULL;

	rest = parse_login(t, rest);
	slash = strchr(rest, '/');
	if (slash != NULL) {
		*slash++ = '\0';
		if (*slash != '\0' && parse_number(slash, 1 << 20, &t->db) == -1)
			return refuse(error, size, url, "expected a database number behind the /");
	}
	if (rest[0] == '[') {		/* [::1]:6379 */
		char *end = strchr(rest, ']');

		if (end == NULL)
			return refuse(error, size, url, "expected ] behind an IPv6 address");
		*end = '\0';
		rest++;
		port = end[1] == ':' ? end + 2 : NULL;
	} else if ((port = strchr(rest, ':')) != NULL) {
		*port++ = '\0';
	}
	t->port = REDIS_PORT;
	if (port != NULL && (parse_number(port, 65535, &t->port) == -1 || t->port == 0))
		return refuse(error, size, url, "expected a port, 1 to 65535");
	t->host = alloc_string(rest[0] == '\0' ? "127.0.0.1" : rest);
	return 0;
}

static char *show(const struct redis_target *t)
{
	if (t->unix_path != NULL)
		return t->db == 0 ? alloc_format("unix://%s", t->unix_path)
				  : alloc_format("unix://%s?db=%d", t->unix_path, t->db);
	return alloc_format(strchr(t->host, ':') != NULL ? "redis://[%s]:%d/%d" : "redis://%s:%d/%d", t->host, t->port,
	    t->db);
}

int redis_target_parse(struct redis_target *t, const char *url, const char *user, const char *password, char *error,
    size_t error_size)
{
	char *copy = alloc_string(url);
	int rc = -1;

	*t = (struct redis_target){0};
	if (strncmp(url, "unix://", 7) == 0)
		rc = parse_unix(t, copy + 7, url, error, error_size);
	else if (strncmp(url, "redis://", 8) == 0)
		rc = parse_tcp(t, copy + 8, url, error, error_size);
	else if (strncmp(url, "rediss://", 9) == 0)
		refuse(error, error_size, url,
		    "this build has no TLS (it needs hiredis >= 1.0): run stunnel beside it and use redis:// or unix:// to reach that");
	else
		refuse(error, error_size, url, "expected redis://HOST:PORT/DB or unix:///PATH");
	explicit_bzero(copy, strlen(url));
	free(copy);
	if (rc == -1) {
		redis_target_free(t);
		return -1;
	}
	if (user != NULL) {
		free(t->user);
		t->user = alloc_string(user);
	}
	if (password != NULL) {
		free(t->password);
		t->password = alloc_string(password);
	}
	t->shown = show(t);
	return 0;
}
