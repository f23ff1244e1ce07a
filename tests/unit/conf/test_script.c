/*
 * Which argument of a command line is the script of its interpreter: without it the handler cannot run, and no message
 * may be charged.
 */
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/conf/conf.h"
#include "tests/unit/unit.h"

static struct conf_script script;
#define SCRIPT(...) (conf_find_script((char *[]){ __VA_ARGS__, NULL }, &script) ? script.path : NULL)
#define S(text) ((char *)(uintptr_t)(text))

TEST(a_script_is_known)
{
	assert_string_equal(SCRIPT(S("/usr/bin/python3"), S("/opt/mail.py"), S("/etc/other")), "/opt/mail.py");
	assert_string_equal(SCRIPT(S("/usr/bin/python3.11"), S("-u"), S("-BE"), S("/opt/mail.py")), "/opt/mail.py");
	assert_string_equal(SCRIPT(S("/bin/sh"), S("-eu"), S("bin/mail")), "bin/mail");
	assert_string_equal(SCRIPT(S("/usr/local/bin/ruby3.1"), S("/opt/mail.rb")), "/opt/mail.rb");
	assert_string_equal(SCRIPT(S("/usr/bin/node"), S("/opt/mail.js")), "/opt/mail.js");
	assert_int_equal(script.may, R_OK);
}

TEST(the_value_of_an_option_is_no_script)
{
	assert_string_equal(SCRIPT(S("/usr/bin/python3"), S("-W"), S("/x"), S("-Xdev"), S("/opt/mail.py")), "/opt/mail.py");
	assert_string_equal(SCRIPT(S("/usr/bin/perl"), S("-I"), S("/opt/lib"), S("-I/x"), S("/opt/mail.pl")), "/opt/mail.pl");
	assert_null(SCRIPT(S("/usr/bin/python3"), S("-W"), S("/x")));
	assert_null(SCRIPT(S("/usr/bin/python3"), S("-X")));
	assert_null(SCRIPT(S("/usr/bin/python3"), S("-uW"), S("/x"), S("/opt/mail.py")));
}

TEST(env_runs_a_program_or_a_script)
{
	assert_string_equal(SCRIPT(S("/usr/bin/env"), S("python3"), S("-u"), S("/opt/mail.py")), "/opt/mail.py");
	assert_string_equal(SCRIPT(S("/usr/bin/env"), S("-i"), S("-u"), S("HOME"), S("--unset=X"), S("A=/b"), S("/usr/bin/sh"), S("/opt/mail")), "/opt/mail");
	assert_string_equal(SCRIPT(S("/usr/bin/env"), S("-S"), S(" A=b  python3 -u"), S("/opt/mail.py")), "/opt/mail.py");
	assert_string_equal(SCRIPT(S("/usr/bin/env"), S("-Spython3 /opt/mail.py"), S("/etc/other")), "/opt/mail.py");
	assert_int_equal(script.may, R_OK);
	assert_string_equal(SCRIPT(S("/usr/bin/env"), S("A=b"), S("/opt/mail"), S("/etc/other")), "/opt/mail");
	assert_int_equal(script.may, X_OK);
	assert_null(SCRIPT(S("/usr/bin/env"), S("-S"), S("python3 '/opt/my mail.py'")));
	assert_null(SCRIPT(S("/usr/bin/env"), S("-S"), S("python3 ${HOME}/mail.py")));
	assert_null(SCRIPT(S("/usr/bin/env"), S("-C"), S("/opt"), S("python3"), S("./mail.py")));
	assert_null(SCRIPT(S("/usr/bin/env"), S("env"), S("python3"), S("/opt/mail.py")));
	assert_null(SCRIPT(S("/usr/bin/env"), S("mail"), S("/opt/x")));
	assert_null(SCRIPT(S("/usr/bin/env"), S("A=/b")));
	assert_null(SCRIPT(S("/usr/bin/env")));
}

static bool by_script(const char *head)
{
	return conf_runs_by_script(head, strlen(head), "/opt/mail");
}

TEST(a_first_line_names_a_known_interpreter)
{
	assert_true(by_script("#!/bin/sh\nexit 1\n"));
	assert_true(by_script("#! /usr/bin/env python3\n"));
	assert_true(by_script("#!/usr/bin/env -S python3 -u\n"));
	assert_true(by_script("#!/usr/bin/perl -w\n"));
	assert_false(by_script("#!/usr/bin/make -f\n"));
	assert_false(by_script("#!/bin/sh -c\n"));
	assert_false(by_script("#!/bin/sh /opt/other\n"));
	assert_false(by_script("#!/bin/sh"));		/* the end of the line is not seen */
	assert_false(by_script("\177ELF\n"));
	assert_false(by_script("#!\n"));
	assert_false(by_script(""));
}

/* Then the handler starts as it is: a wrong guess would stop a queue whose handler is in order. */
TEST(else_it_is_not_guessed)
{
	assert_null(SCRIPT(S("/opt/mail"), S("/var/spool/out")));
	assert_null(SCRIPT(S("/opt/python3-wrapper"), S("/var/spool/out")));
	assert_null(SCRIPT(S("/bin/sh"), S("-c"), S("/opt/mail | /opt/send")));
	assert_null(SCRIPT(S("/bin/sh"), S("-ec"), S("/opt/mail | /opt/send")));
	assert_null(SCRIPT(S("/bin/sh"), S("-s"), S("/tmp/x")));
	assert_null(SCRIPT(S("/usr/bin/python3"), S("-m"), S("shop/mail")));
	assert_null(SCRIPT(S("/usr/bin/node"), S("--require"), S("/opt/a.js"), S("/opt/mail.js")));
	assert_null(SCRIPT(S("/usr/bin/bash"), S("--rcfile"), S("/x"), S("/opt/mail")));
	assert_null(SCRIPT(S("/bin/sh"), S("-"), S("/opt/mail")));
	assert_null(SCRIPT(S("/bin/sh"), S("mail")));
	assert_null(SCRIPT(S("/bin/sh"), S("-e")));
	assert_null(SCRIPT(S("/bin/sh")));
	assert_null(SCRIPT(S("/opt/3.11"), S("/opt/x")));
	assert_null(SCRIPT(S("/"), S("/opt/x")));
}

UNIT_MAIN(NULL, NULL)
