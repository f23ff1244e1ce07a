/* Addresses of Redis and of Sentinels, as a configuration writes them. */
#include <string.h>

#include "common/base/base.h"
#include "common/redis/redis.h"
#include "tests/unit/unit.h"

static char why[256];

static struct redis_target parse(const struct redis_options *o)
{
	struct redis_target t;

	if (redis_target_parse(&t, o, why, sizeof(why)) == -1)
		fail_msg("%s", why);
	return t;
}

static void assert_refused(const struct redis_options *o, const char *reason)
{
	struct redis_target t;

	assert_int_equal(redis_target_parse(&t, o, why, sizeof(why)), -1);
	assert_string_equal(why, reason);
	assert_null(t.addresses);
}

static void assert_address(const struct redis_target *t, size_t i, const char *host, int port)
{
	assert_true(i < t->naddresses);
	assert_string_equal(t->addresses[i].host, host);
	assert_int_equal(t->addresses[i].port, port);
}

TEST(a_url_names_several_addresses)
{
	struct redis_target t = parse(&(struct redis_options){ .url = "redis://app:secret@a,b:7000,[::1],[fe80::2]:7001/3" });

	assert_int_equal(t.naddresses, 4);
	assert_address(&t, 0, "a", 6379);
	assert_address(&t, 1, "b", 7000);
	assert_address(&t, 2, "::1", 6379);
	assert_address(&t, 3, "fe80::2", 7001);
	assert_int_equal(t.db, 3);
	assert_string_equal(t.login.user, "app");
	assert_string_equal(t.login.password, "secret");
	assert_string_equal(t.shown, "redis://a:6379,b:7000,[::1]:6379,[fe80::2]:7001/3");
	redis_target_free(&t);
}

TEST(without_a_host_it_is_this_one)
{
	struct redis_target t = parse(&(struct redis_options){ .url = "redis://app@/2", .user = "other", .password = "p" });

	assert_int_equal(t.naddresses, 1);
	assert_address(&t, 0, "127.0.0.1", 6379);
	assert_string_equal(t.login.user, "other");
	assert_string_equal(t.login.password, "p");
	redis_target_free(&t);
}

TEST(user_and_password_are_percent_encoded)
{
	struct redis_target t = parse(&(struct redis_options){
		.url = "redis://us%3Aer:p%2Fq%23r%40s%25%C3%a4@host/1" });

	assert_string_equal(t.login.user, "us:er");
	assert_string_equal(t.login.password, "p/q#r@s%\xc3\xa4");
	assert_string_equal(t.shown, "redis://host:6379/1");
	redis_target_free(&t);
	t = parse(&(struct redis_options){ .url = "redis://:p@q/r#s:+@host" });
	assert_null(t.login.user);
	assert_string_equal(t.login.password, "p@q/r#s:+");
	redis_target_free(&t);
	t = parse(&(struct redis_options){ .url = "unix:///run/a%2Fb" });
	assert_string_equal(t.unix_path, "/run/a%2Fb");
	redis_target_free(&t);
}

TEST(a_badly_encoded_login_is_refused)
{
	static const char *const bad[] = {
		"redis://:a%@host", "redis://:a%4@host", "redis://:a%4g@host", "redis://:a%00@host",
		"redis://a%zz:b@host", "redis://:a%4:%@host",
	};

	for (size_t i = 0; i < nitems(bad); i++)
		assert_refused(&(struct redis_options){ .url = bad[i] }, "\"host\": " REDIS_URL_BAD_LOGIN);
}

TEST(sentinels_take_the_place_of_the_host)
{
	const char *const sentinels[] = { "s1", "s2:5000", "[::1]:5001", NULL };
	struct redis_target t = parse(&(struct redis_options){ .url = "redis://app@/2", .sentinels = sentinels, .master = "mail",
	    .sentinel_user = "watch", .sentinel_password = "w" });

	assert_int_equal(t.naddresses, 3);
	assert_address(&t, 0, "s1", 26379);
	assert_address(&t, 1, "s2", 5000);
	assert_address(&t, 2, "::1", 5001);
	assert_string_equal(t.master, "mail");
	assert_string_equal(t.login.user, "app");
	assert_string_equal(t.sentinel_login.user, "watch");
	assert_string_equal(t.sentinel_login.password, "w");
	assert_string_equal(t.shown, "redis master mail/2");
	redis_target_free(&t);
}

TEST(a_wrong_address_is_refused)
{
	static const struct { const char *url, *reason; } wrong[] = {
		{ "redis://a,,b/0", "\"redis://a,,b/0\": expected a host before and behind each comma" },
		{ "redis://a,b,/0", "\"redis://a,b,/0\": expected a host before and behind each comma" },
		{ "redis://u:p@a,:1/0", "\"a,:1/0\": expected a host before and behind each comma" },
		{ "redis://a,b:0", "\"redis://a,b:0\": expected a port, 1 to 65535" },
		{ "redis://a:65536", "\"redis://a:65536\": expected a port, 1 to 65535" },
		{ "redis://[::1", "\"redis://[::1\": expected ] behind an IPv6 address" },
		{ "redis://[::1]x", "\"redis://[::1]x\": expected a port behind the ] of an IPv6 address" },
		{ "redis://a/x", "\"redis://a/x\": expected a database number behind the /" },
		{ "http://a", "\"http://a\": expected redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS) or unix:///PATH" },
	};

	for (size_t i = 0; i < nitems(wrong); i++)
		assert_refused(&(struct redis_options){ .url = wrong[i].url }, wrong[i].reason);
}

TEST(too_many_addresses_are_refused)
{
	char url[256] = "redis://a";

	for (int i = 1; i < 65; i++)
		strcat(url, ",a");
	assert_int_equal(redis_target_parse(&(struct redis_target){0}, &(struct redis_options){ .url = url }, why, sizeof(why)), -1);
	assert_non_null(strstr(why, "expected at most 64 addresses"));
}

TEST(wrong_sentinels_are_refused)
{
	static const char url[] = "redis.url: the Sentinels know the host, so with redis.sentinels the URL may name only the user and "
	    "the database: redis://[USER@]/DB";
	const char *const good[] = { "s1", NULL }, *const empty[] = { "s1", "", NULL }, *const port[] = { "s1:x", NULL };

	assert_refused(&(struct redis_options){ .url = "redis://h/0", .sentinels = good, .master = "m" }, url);
	assert_refused(&(struct redis_options){ .url = "unix:///s", .sentinels = good, .master = "m" }, url);
	assert_refused(&(struct redis_options){ .url = "redis:///0", .sentinels = empty, .master = "m" },
	    "redis.sentinels: \"\": expected HOST:PORT");
	assert_refused(&(struct redis_options){ .url = "redis:///0", .sentinels = port, .master = "m" },
	    "redis.sentinels: \"s1:x\": expected a port, 1 to 65535");
}

TEST(the_command_line_replaces_the_address)
{
	struct redis_target t = parse(&(struct redis_options){ .url = "redis://a:1,b:2/3" });

	redis_target_set_address(&t, NULL, 7);
	assert_int_equal(t.naddresses, 1);
	assert_address(&t, 0, "a", 7);
	redis_target_set_address(&t, "c", 0);
	assert_address(&t, 0, "c", 7);
	assert_string_equal(t.shown, "redis://c:7/3");
	redis_target_free(&t);
	t = parse(&(struct redis_options){ .url = "unix:///s?db=2" });
	redis_target_set_address(&t, NULL, 7);
	assert_null(t.unix_path);
	assert_string_equal(t.shown, "redis://127.0.0.1:7/2");
	redis_target_free(&t);
}

UNIT_MAIN(NULL, NULL)
