#ifndef ADMIN_WEB_SESSION_H
#define ADMIN_WEB_SESSION_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A browser never gets the token. It opens a session with a code that works once. A session has two secrets. The id is
 * a cookie that no script can read; but browsers send cookies to every port of a host. The pages keep the key in their
 * own origin, which includes the port, and send it as a header. A request needs both.
 *
 * Sessions are kept in memory only: a restart of the console ends them. Times are CLOCK_BOOTTIME in ms.
 */
#define WEB_SECRET_SIZE 65		/* 32 random bytes in hexadecimal digits, and a NUL */
#define WEB_SESSIONS 64			/* a further one replaces the oldest */
#define WEB_SESSION_MS (INT64_C(12) * 3600 * 1000)
#define WEB_CODE_MS (INT64_C(10) * 60 * 1000)

struct web_session {
	char id[WEB_SECRET_SIZE], key[WEB_SECRET_SIZE];
	int64_t until_ms;		/* 0: there is none */
};

struct web_sessions {
	struct web_session all[WEB_SESSIONS];
	char code[WEB_SECRET_SIZE];
	int64_t code_until_ms;		/* 0: there is no code */
};

/* Makes a new code, which replaces the one before. Owned by the sessions; valid until the next call. */
const char *web_sessions_make_code(struct web_sessions *s, int64_t now_ms);
/* true: this is the code; it is used up by this call. */
bool web_sessions_take_code(struct web_sessions *s, const char *code, int64_t now_ms);

const struct web_session *web_sessions_open(struct web_sessions *s, int64_t now_ms);
bool web_sessions_has(const struct web_sessions *s, const char *id, const char *key, int64_t now_ms);
void web_sessions_close(struct web_sessions *s, const char *id);

void web_secret_make(char secret[WEB_SECRET_SIZE]);
/* Compares in a time that does not depend on where the two differ. */
bool web_secret_is(const char *said, const char *secret);

#endif
