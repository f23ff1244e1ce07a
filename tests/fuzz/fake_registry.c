/* Who is registered, and as what, in a server that may say anything. */
#include <string.h>

#include "tests/fuzz/fake_registry.h"

#include "common/base/nitems.h"
#include "common/queue/moves.h"
#include "tests/fuzz/fake_answers.h"

/* Whose registration, and whether its master is ours. */
static void any_incarnation(struct input *in, struct buffer *out)
{
	static const char *const names[] = {
		"n." FAKE_OUR_BOOT ".1.1", "n." FAKE_OUR_BOOT ".2.3", "n." FAKE_OLD_BOOT ".1.1",
		"n." FAKE_OLD_BOOT ".2.9", "far.away.0123456789abcdef.7.18446744073709551615",
		"n." FAKE_OUR_BOOT ".-1.1", "n." FAKE_OUR_BOOT ".99999999999999999999.1", "." FAKE_OLD_BOOT ".1.1", "n.00000000000000A0.1.1", "none",
		"n." FAKE_OLD_BOOT ".1.1:rescue", "n." FAKE_OUR_BOOT ".1.+1",
	};
	unsigned which = input_below(in, nitems(names) + 2);
	size_t len;
	const char *bytes;

	if (which < nitems(names)) {
		fake_text(out, names[which]);
		return;
	}
	bytes = input_bytes(in, &len);
	fake_string(out, bytes, len);
}

static void any_registration(struct input *in, struct buffer *out)
{
	static const char *const texts[] = {
		"{\"lock\":\"" FAKE_LOCK "\",\"node\":\"n\",\"pid\":1,\"since\":1700000000000}",
		"{\"lock\":\"other\",\"node\":\"n\",\"pid\":1,\"since\":1700000000000}",
		"{\"lock\":\"" FAKE_LOCK "\",\"node\":\"n\",\"pid\":1,\"since\":1,\"died_at\":1699999000000}",
		"{\"lock\":\"" FAKE_LOCK "\",\"died_at\":1.7e12}", "{\"died_at\":1e300}", "{\"died_at\":-1e300}", "{\"died_at\":\"x\"}", "{}", "[]", "3", "",
		"{\"lock\":1,\"node\":[],\"pid\":1e99,\"since\":{}}",
	};
	unsigned which = input_below(in, nitems(texts) + 1);
	size_t len;
	const char *bytes;

	if (which < nitems(texts)) {
		fake_text(out, texts[which]);
		return;
	}
	bytes = input_bytes(in, &len);
	fake_string(out, bytes, len);
}

static void workers(struct input *in, struct buffer *out, unsigned variant)
{
	unsigned n = variant % 8;

	fake_array(out, 2 * n);
	while (n-- > 0) {
		any_incarnation(in, out);
		any_registration(in, out);
	}
}

static void registry_entry(struct input *in, struct buffer *out, unsigned variant)
{
	static const char *const entries[] = {
		"{\"name\":\"left\",\"ingress\":\"i\",\"transit\":\"t\",\"escape\":\"e\"}", "{\"ingress\":\"i\",\"transit\":\"t\"}", "{\"ingress\":1}", "null",
		"{\"ingress\":\"\\u0000\",\"transit\":\"t\",\"escape\":\"e\"}",
		"{\"ingress\":\"i\",\"transit\":\"t\",\"escape\":\"e\",\"shared\":true}",
	};
	size_t len;
	const char *bytes;

	if (variant < nitems(entries)) {
		fake_text(out, entries[variant]);
		return;
	}
	bytes = input_bytes(in, &len);
	fake_string(out, bytes, len);
}

static void names(struct input *in, struct buffer *out, unsigned variant)
{
	static const char *const all[] = { "left", "mail", "\033[2J", "a\nb", "", "\302\233m", "other",
	    "a-name-of-sixty-five-bytes-which-is-one-more-than-a-name-can-have." };
	unsigned n = variant % 5;
	size_t len;
	const char *bytes;

	fake_array(out, n);
	while (n-- > 0) {
		unsigned which = input_below(in, nitems(all) + 1);

		if (which < nitems(all)) {
			fake_text(out, all[which]);
			continue;
		}
		bytes = input_bytes(in, &len);
		fake_string(out, bytes, len);
	}
}

static void entries(struct input *in, struct buffer *out, size_t n, unsigned variant)
{
	fake_array(out, n);
	while (n-- > 0)
		registry_entry(in, out, variant % 8 == 7 ? input_below(in, 8) : variant % 8);
}

static void rescue_size(struct buffer *out, unsigned variant)
{
	static const char *const sizes[] = { "1", "2", "0", "-1", "-9223372036854775809", "x", "" };

	if (variant == 0)
		fake_nil(out);
	else
		fake_text(out, sizes[variant % nitems(sizes)]);
}

bool fake_registry_answer(struct input *in, const struct fake_command *c, struct buffer *out, unsigned variant)
{
	if (fake_redis_is(c, "HGETALL"))
		workers(in, out, variant);
	else if (fake_redis_is(c, "GET"))
		registry_entry(in, out, variant);
	else if (fake_redis_is(c, "HGET"))
		rescue_size(out, variant);
	else if (fake_redis_is(c, "ZRANGE") && c->argc > 1 && strcmp(c->argv[1], "quredis:queues") == 0)
		names(in, out, variant);
	else if (fake_redis_is(c, "MGET"))
		entries(in, out, c->argc - 1, variant);
	else
		return false;
	return true;
}
