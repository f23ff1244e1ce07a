/* Sessions of browsers: a code counts once and not for long; a session needs both of its secrets. */

#include <stdio.h>
#include <string.h>

#include "admin/web/session.h"
#include "tests/unit/unit.h"

#define NOW INT64_C(1000000)

TEST(test_a_code_counts_once)
{
	struct web_sessions s = {0};
	char code[WEB_SECRET_SIZE];

	assert_false(web_sessions_take_code(&s, "", NOW));
	snprintf(code, sizeof(code), "%s", web_sessions_make_code(&s, NOW));
	assert_int_equal(strlen(code), WEB_SECRET_SIZE - 1);
	assert_false(web_sessions_take_code(&s, "", NOW));
	code[0] ^= 1;
	assert_false(web_sessions_take_code(&s, code, NOW));
	code[0] ^= 1;
	assert_true(web_sessions_take_code(&s, code, NOW));
	assert_false(web_sessions_take_code(&s, code, NOW));
	assert_false(web_sessions_take_code(&s, "", NOW));
}

TEST(test_a_code_expires_and_is_replaced)
{
	struct web_sessions s = {0};
	char first[WEB_SECRET_SIZE];

	snprintf(first, sizeof(first), "%s", web_sessions_make_code(&s, NOW));
	assert_false(web_sessions_take_code(&s, first, NOW + WEB_CODE_MS));
	web_sessions_make_code(&s, NOW);
	assert_false(web_sessions_take_code(&s, first, NOW));
	snprintf(first, sizeof(first), "%s", s.code);
	assert_true(web_sessions_take_code(&s, first, NOW + WEB_CODE_MS - 1));
}

TEST(test_a_session_needs_both_secrets)
{
	struct web_sessions s = {0};
	struct web_session one, other;

	assert_false(web_sessions_has(&s, "", "", NOW));
	one = *web_sessions_open(&s, NOW);
	other = *web_sessions_open(&s, NOW);
	assert_true(web_sessions_has(&s, one.id, one.key, NOW + WEB_SESSION_MS - 1));
	assert_true(web_sessions_has(&s, other.id, other.key, NOW));
	assert_false(web_sessions_has(&s, one.id, one.key, NOW + WEB_SESSION_MS));
	assert_false(web_sessions_has(&s, one.id, other.key, NOW));
	assert_false(web_sessions_has(&s, one.id, one.id, NOW));
	assert_false(web_sessions_has(&s, one.id, "", NOW));
	assert_false(web_sessions_has(&s, "", one.key, NOW));
	web_sessions_close(&s, one.id);
	assert_false(web_sessions_has(&s, one.id, one.key, NOW));
	assert_false(web_sessions_has(&s, "", "", NOW));
	assert_true(web_sessions_has(&s, other.id, other.key, NOW));
}

TEST(test_the_oldest_gives_way)
{
	struct web_sessions s = {0};
	struct web_session all[WEB_SESSIONS + 1];

	for (int i = 0; i <= WEB_SESSIONS; i++)
		all[i] = *web_sessions_open(&s, NOW + i);
	assert_false(web_sessions_has(&s, all[0].id, all[0].key, NOW));
	for (int i = 1; i <= WEB_SESSIONS; i++)
		assert_true(web_sessions_has(&s, all[i].id, all[i].key, NOW));
}

UNIT_MAIN(NULL, NULL)
