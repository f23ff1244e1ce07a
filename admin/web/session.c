/* Sign-in codes and sessions of browsers. */
#include <string.h>

#include <bsd/stdlib.h>

#include "admin/web/session.h"

#include "common/base/base.h"

/* ---- secrets ---- */

void web_secret_make(char secret[WEB_SECRET_SIZE])
{
	unsigned char bytes[(WEB_SECRET_SIZE - 1) / 2];

	arc4random_buf(bytes, sizeof(bytes));
	*put_hex(secret, bytes, sizeof(bytes)) = '\0';
	explicit_bzero(bytes, sizeof(bytes));
}

/* Older versions of libbsd have no timingsafe_bcmp(). */
bool web_secret_is(const char *said, const char *secret)
{
	size_t len = strlen(secret);
	volatile unsigned char differs = 0;

	if (len == 0 || strlen(said) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		differs = (unsigned char)(differs | (said[i] ^ secret[i]));
	return differs == 0;
}

/* ---- codes ---- */

const char *web_sessions_make_code(struct web_sessions *s, int64_t now_ms)
{
	web_secret_make(s->code);
	s->code_until_ms = now_ms + WEB_CODE_MS;
	return s->code;
}

bool web_sessions_take_code(struct web_sessions *s, const char *code, int64_t now_ms)
{
	if (now_ms >= s->code_until_ms || !web_secret_is(code, s->code))
		return false;
	explicit_bzero(s->code, sizeof(s->code));
	s->code_until_ms = 0;
	return true;
}

/* ---- sessions ---- */

/* Takes an unused place (until_ms 0), or the session that expires first. */
const struct web_session *web_sessions_open(struct web_sessions *s, int64_t now_ms)
{
	struct web_session *place = &s->all[0];

	for (struct web_session *p = s->all; p < s->all + WEB_SESSIONS; p++)
		if (p->until_ms < place->until_ms)
			place = p;
	web_secret_make(place->id);
	web_secret_make(place->key);
	place->until_ms = now_ms + WEB_SESSION_MS;
	return place;
}

bool web_sessions_has(const struct web_sessions *s, const char *id, const char *key, int64_t now_ms)
{
	for (const struct web_session *p = s->all; p < s->all + WEB_SESSIONS; p++)
		if (now_ms < p->until_ms && web_secret_is(id, p->id))
			return web_secret_is(key, p->key);
	return false;
}

void web_sessions_close(struct web_sessions *s, const char *id)
{
	for (struct web_session *p = s->all; p < s->all + WEB_SESSIONS; p++)
		if (p->until_ms > 0 && web_secret_is(id, p->id))
			*p = (struct web_session){0};
}
