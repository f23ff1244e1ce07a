/*
 * Where a server is: parses redis://, rediss:// and unix:// URLs, and the addresses of Sentinels. An URL may list
 * several addresses, "redis://a:6379,b:6379/0"; route.c decides which of them is tried next. The names of the keys
 * there begin with the prefix of the target.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "common/redis/redis.h"

#include "common/base/base.h"

#define SENTINEL_PORT 26379

static void free_addresses(struct redis_target *t)
{
	for (size_t i = 0; i < t->naddresses; i++)
		free(t->addresses[i].host);
	free(t->addresses);
	t->addresses = NULL;
	t->naddresses = 0;
}

static void free_login(struct redis_login *l)
{
	free(l->user);
	if (l->password != NULL)
		explicit_bzero(l->password, strlen(l->password));
	free(l->password);
}

void redis_target_free(struct redis_target *t)
{
	free(t->unix_path);
	free_addresses(t);
	free(t->master);
	free_login(&t->login);
	free_login(&t->sentinel_login);
	free(t->shown);
	free(t->prefix);
	*t = (struct redis_target){0};
}

static int refuse(char *error, size_t size, const char *url, const char *why)
{
	const char *at = strrchr(url, '@');	/* before it may be a password */

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

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c == '\0' ? NULL : strchr(digits, tolower((unsigned char)c));

	return at == NULL ? -1 : (int)(at - digits);
}

char *redis_url_decode(const char *text, size_t len)
{
	char *out = alloc_copy(text, len);
	size_t n = 0;

	for (size_t i = 0; i < len; i++, n++) {
		int high = 0, low = 0;

		out[n] = text[i];
		if (text[i] != '%')
			continue;
		if (len - i < 3 || (high = hex_digit(text[i + 1])) == -1 || (low = hex_digit(text[i + 2])) == -1 ||
		    high + low == 0) {
			explicit_bzero(out, len);
			free(out);
			return NULL;
		}
		out[n] = (char)(high << 4 | low);
		i += 2;
	}
	explicit_bzero(out + n, len - n);
	return out;
}

/* user:password@ ; it ends at the last @, so a password may hold one. Returns NULL if one of them is badly encoded. */
static char *parse_login(struct redis_target *t, char *rest)
{
	char *at = strrchr(rest, '@'), *colon;

	if (at == NULL)
		return rest;
	colon = memchr(rest, ':', (size_t)(at - rest));
	if (colon != NULL && colon + 1 < at &&
	    (t->login.password = redis_url_decode(colon + 1, (size_t)(at - colon - 1))) == NULL)
		return NULL;
	if (colon == NULL)
		colon = at;
	if (colon > rest && (t->login.user = redis_url_decode(rest, (size_t)(colon - rest))) == NULL)
		return NULL;
	return at + 1;
}

static void add_address(struct redis_target *t, const char *host, int port)
{
	t->addresses = alloc_resize(t->addresses, t->naddresses + 1, sizeof(*t->addresses));
	t->addresses[t->naddresses++] = (struct redis_address){ alloc_string(host), port };
}

/* Parses HOST, HOST:PORT, [IPV6] or [IPV6]:PORT. Returns what is wrong with it; NULL: nothing. */
static const char *parse_address(struct redis_target *t, char *text, int default_port)
{
	int number = default_port;
	char *port = NULL;

	if (text[0] == '[') {
		char *end = strchr(text, ']');

		if (end == NULL)
			return "expected ] behind an IPv6 address";
		*end = '\0';
		text++;
		if (end[1] != '\0' && end[1] != ':')
			return "expected a port behind the ] of an IPv6 address";
		port = end[1] == ':' ? end + 2 : NULL;
	} else if ((port = strchr(text, ':')) != NULL) {
		*port++ = '\0';
	}
	if (port != NULL && (parse_number(port, 65535, &number) == -1 || number == 0))
		return "expected a port, 1 to 65535";
	if (t->naddresses == REDIS_ADDRESSES_MAX)
		return "expected at most 64 addresses";
	add_address(t, text, number);
	return NULL;
}

static int parse_tcp(struct redis_target *t, char *rest, const char *url, char *error, size_t size)
{
	const char *why;
	char *slash, *address;

	rest = parse_login(t, rest);
	if (rest == NULL)
		return refuse(error, size, url, REDIS_URL_BAD_LOGIN);
	slash = strchr(rest, '/');
	if (slash != NULL) {
		*slash++ = '\0';
		if (*slash != '\0' && parse_number(slash, 1 << 20, &t->db) == -1)
			return refuse(error, size, url, "expected a database number behind the /");
	}
	if (rest[0] == '\0') {
		add_address(t, "127.0.0.1", REDIS_PORT);
		t->no_host = true;
		return 0;
	}
	while ((address = strsep(&rest, ",")) != NULL) {
		if (address[0] == '\0' || address[0] == ':')
			return refuse(error, size, url, "expected a host before and behind each comma");
		why = parse_address(t, address, REDIS_PORT);
		if (why != NULL)
			return refuse(error, size, url, why);
	}
	return 0;
}

static char *show(const struct redis_target *t)
{
	char *text, *longer;

	if (t->unix_path != NULL)
		return t->db == 0 ? alloc_format("unix://%s", t->unix_path)
		    : alloc_format("unix://%s?db=%d", t->unix_path, t->db);
	if (t->master != NULL)
		return alloc_format("redis master %s/%d", t->master, t->db);
	text = alloc_string(t->tls ? "rediss://" : "redis://");
	for (size_t i = 0; i < t->naddresses; i++) {
		const struct redis_address *a = &t->addresses[i];

		longer = alloc_format(strchr(a->host, ':') != NULL ? "%s%s[%s]:%d" : "%s%s%s:%d", text,
		    i > 0 ? "," : "", a->host, a->port);
		free(text);
		text = longer;
	}
	longer = alloc_format("%s/%d", text, t->db);
	free(text);
	return longer;
}

static int parse_url(struct redis_target *t, const char *url, char *error, size_t size)
{
	char *copy = alloc_string(url);
	int rc = -1;

	if (strncmp(url, "unix://", 7) == 0)
		rc = parse_unix(t, copy + 7, url, error, size);
	else if (strncmp(url, "redis://", 8) == 0)
		rc = parse_tcp(t, copy + 8, url, error, size);
	else if (strncmp(url, "rediss://", 9) == 0)
		rc = parse_tcp(t, copy + 9, url, error, size);
	else
		refuse(error, size, url, "expected redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS) or unix:///PATH");
	t->tls = strncmp(url, "rediss://", 9) == 0;
	explicit_bzero(copy, strlen(url));
	free(copy);
	return rc;
}

static int refuse_sentinel(char *error, size_t size, const char *sentinel, const char *why)
{
	snprintf(error, size, "redis.sentinels: \"%s\": %s", sentinel, why);
	return -1;
}

/* The Sentinels' addresses replace that of the URL, which names no host. */
static int parse_sentinels(struct redis_target *t, const struct redis_options *o, char *error, size_t size)
{
	if (t->unix_path != NULL || !t->no_host) {
		snprintf(error, size, "redis.url: the Sentinels know the host, so with redis.sentinels the URL may "
		    "name only the user and the database: redis://[USER@]/DB");
		return -1;
	}
	free_addresses(t);
	for (size_t i = 0; o->sentinels[i] != NULL; i++) {
		char *copy = alloc_string(o->sentinels[i]);
		const char *why = copy[0] == '\0' || copy[0] == ':' ? "expected HOST:PORT"
		    : parse_address(t, copy, SENTINEL_PORT);

		free(copy);
		if (why != NULL)
			return refuse_sentinel(error, size, o->sentinels[i], why);
	}
	t->master = alloc_string(o->master);
	t->sentinel_tls = o->sentinel_tls;
	t->sentinel_login.user = o->sentinel_user == NULL ? NULL : alloc_string(o->sentinel_user);
	t->sentinel_login.password = o->sentinel_password == NULL ? NULL : alloc_string(o->sentinel_password);
	return 0;
}

static void replace(char **text, const char *by)
{
	if (by == NULL)
		return;
	free(*text);
	*text = alloc_string(by);
}

int redis_target_parse(struct redis_target *t, const struct redis_options *o, char *error, size_t error_size)
{
	*t = (struct redis_target){0};
	if (parse_url(t, o->url, error, error_size) == -1 ||
	    (o->sentinels != NULL && parse_sentinels(t, o, error, error_size) == -1)) {
		redis_target_free(t);
		return -1;
	}
	replace(&t->login.user, o->user);
	replace(&t->login.password, o->password);
	t->shown = show(t);
	return 0;
}

bool redis_target_is_remote(const struct redis_target *t)
{
	for (size_t i = 0; i < t->naddresses; i++)
		if (address_reach(t->addresses[i].host) != ADDRESS_LOOPBACK &&
		    strcmp(t->addresses[i].host, "localhost") != 0)
			return true;
	return false;
}

uint64_t redis_target_mark(const struct redis_target *t, const char *run_id)
{
	uint64_t mark = hash_text(hash_text(HASH_EMPTY, t->shown), run_id);

	for (size_t i = 0; i < t->naddresses; i++)
		mark = hash_text(mark, t->addresses[i].host) ^ (uint64_t)t->addresses[i].port;
	return mark;
}

void redis_target_use(struct redis_target *t, const struct tls_context *context)
{
	t->tls_context = context;
}

void redis_target_use_prefix(struct redis_target *t, const char *prefix)
{
	char *copy = alloc_string(prefix == NULL ? "" : prefix);

	free(t->prefix);
	t->prefix = copy;
}

const char *redis_prefix(const struct redis *r)
{
	return r->target == NULL || r->target->prefix == NULL ? "" : r->target->prefix;
}

void redis_target_set_address(struct redis_target *t, const char *host, int port)
{
	bool known = t->naddresses > 0;
	char *to_host = alloc_string(host != NULL ? host : known ? t->addresses[0].host : "127.0.0.1");
	int to_port = port != 0 ? port : known ? t->addresses[0].port : REDIS_PORT;

	free(t->unix_path);
	t->unix_path = NULL;
	free(t->master);
	t->master = NULL;
	free_addresses(t);
	add_address(t, to_host, to_port);
	free(to_host);
	free(t->shown);
	t->shown = show(t);
}
