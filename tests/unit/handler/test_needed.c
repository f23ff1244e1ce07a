/*
 * Which argument of a command line is the script of its interpreter: without it the handler cannot run, and no message
 * may be charged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/base.h"
#include "common/handler/needed.h"

#define SCRIPT(...) handler_script((char *[]){ __VA_ARGS__, NULL })
#define S(text) ((char *)(uintptr_t)(text))

static void a_script_is_known(void **state)
{
	(void)state;
	assert_string_equal(SCRIPT(S("/usr/bin/python3"), S("/opt/mail.py"), S("/etc/other")), "/opt/mail.py");
	assert_string_equal(SCRIPT(S("/usr/bin/python3.11"), S("-u"), S("-BE"), S("/opt/mail.py")), "/opt/mail.py");
	assert_string_equal(SCRIPT(S("/bin/sh"), S("-eu"), S("bin/mail")), "bin/mail");
	assert_string_equal(SCRIPT(S("/usr/local/bin/ruby3.1"), S("/opt/mail.rb")), "/opt/mail.rb");
	assert_string_equal(SCRIPT(S("/usr/bin/node"), S("/opt/mail.js")), "/opt/mail.js");
}

/* Then the handler starts as it is: a wrong guess would stop a queue whose handler is in order. */
static void else_it_is_not_guessed(void **state)
{
	(void)state;
	assert_null(SCRIPT(S("/opt/mail"), S("/var/spool/out")));
	assert_null(SCRIPT(S("/opt/python3-wrapper"), S("/var/spool/out")));
	assert_null(SCRIPT(S("/bin/sh"), S("-c"), S("/opt/mail | /opt/send")));
	assert_null(SCRIPT(S("/bin/sh"), S("-ec"), S("/opt/mail | /opt/send")));
	assert_null(SCRIPT(S("/bin/sh"), S("-s"), S("/tmp/x")));
	assert_null(SCRIPT(S("/usr/bin/python3"), S("-m"), S("shop/mail")));
	assert_null(SCRIPT(S("/usr/bin/python3"), S("-W"), S("/x")));
	assert_null(SCRIPT(S("/usr/bin/perl"), S("-I"), S("/opt/lib"), S("/opt/mail.pl")));
	assert_null(SCRIPT(S("/usr/bin/node"), S("--require"), S("/opt/a.js"), S("/opt/mail.js")));
	assert_null(SCRIPT(S("/usr/bin/bash"), S("--rcfile"), S("/x"), S("/opt/mail")));
	assert_null(SCRIPT(S("/bin/sh"), S("-"), S("/opt/mail")));
	assert_null(SCRIPT(S("/bin/sh"), S("mail")));
	assert_null(SCRIPT(S("/bin/sh"), S("-e")));
	assert_null(SCRIPT(S("/bin/sh")));
	assert_null(SCRIPT(S("/opt/3.11"), S("/opt/x")));
	assert_null(SCRIPT(S("/"), S("/opt/x")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_script_is_known),
		cmocka_unit_test(else_it_is_not_guessed),
	};

	return cmocka_run_group_tests_name("needed", tests, NULL, NULL);
}
