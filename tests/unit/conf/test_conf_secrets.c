/* links: tests/unit/conf/conf_fixture.c */

/* Where passwords come from, and who may read them: password files, credentials, addresses. */
#include <sys/stat.h>

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/redis/redis.h"
#include "tests/unit/conf/conf_fixture.h"
#include "tests/unit/unit.h"

static void as_root_only(void)
{
	if (geteuid() != 0)
		skip();
}

TEST(password_files, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char path[256];

	strcpy(path, conf_write(f, "pass", "s3cr3t \n"));
	conf_read_with_password_file(f, path, 0);
	assert_loaded(f);
	assert_string_equal(f->conf->redis.password, "s3cr3t ");
	chmod(path, 0400);
	conf_read_with_password_file(f, path, 0);
	assert_loaded(f);
	chmod(path, 0640);
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "pass can be read by others (mode 0640): chmod go-rwx ");
	chmod(path, 0601);
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "quredis.conf:1: redis.password_file: pass can be");
	conf_write(f, "pass", "");
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "redis.password_file: pass is empty");
	conf_write(f, "pass", "\n");
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "redis.password_file: pass is empty");
	conf_write(f, "pass", "s3cret\ntwo\n");
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "redis.password_file: pass holds more than one line of text");
	conf_write_bytes(f, "pass", "a\0b", 3, 0600);
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "redis.password_file: pass holds more than one line of text");
	assert_int_equal(unlink(path), 0);
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "redis.password_file: pass does not exist");
	assert_false(conf_said(f, "s3cret"));
}

/* The command line, run by root, may read what belongs to the daemon's user; the daemon itself may not. */
TEST(password_files_of_the_daemons_user, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char path[256];

	as_root_only();
	strcpy(path, conf_write(f, "pass", "x"));
	assert_int_equal(chown(path, 12345, 0), 0);
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "pass belongs to uid 12345");
	conf_read_with_password_file(f, path, CONF_LENIENT_HANDLERS);
	assert_loaded(f);
}

/* The command line does what needs no password. */
TEST(a_lenient_load_does_without_the_password, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_with_password_file(f, "/nowhere", CONF_LENIENT_HANDLERS);
	assert_loaded(f);
	assert_said(f, "warning: quredis.conf:1: redis.password_file: /nowhere does not exist");
	assert_null(f->conf->redis.password);
	conf_read_with_password_file(f, "credential", CONF_LENIENT_HANDLERS);
	assert_loaded(f);
	assert_said(f, "warning: quredis.conf:1: redis.password_file: \"credential\" is the name of a credential");
}

TEST(credentials, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_with_password_file(f, "redis", 0);
	assert_refused(f, "\"redis\" is the name of a credential, but $CREDENTIALS_DIRECTORY is not set");
	setenv("CREDENTIALS_DIRECTORY", f->dir, 1);
	conf_write_bytes(f, "redis", "from systemd", 12, 0440);
	conf_read_with_password_file(f, "redis", 0);
	assert_loaded(f);
	assert_string_equal(f->conf->redis.password, "from systemd");
	conf_read_with_password_file(f, "sub/redis", 0);
	assert_refused(f, "expected an absolute path or the name of a credential");
	conf_write_bytes(f, "redis", "from systemd", 12, 0444);
	conf_read_with_password_file(f, "redis", 0);
	assert_refused(f, "redis can be read by others");
}

TEST(a_password_in_the_address, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	static const char text[] = "redis = { url = \"redis://me:p@ss:w/rd@host:1/2\"; };";
	char *printed, path[256], both[512];

	conf_write(f, "quredis.conf", text);
	conf_read(f, 0);
	assert_loaded(f);
	assert_string_equal(f->conf->redis.url, "redis://me@host:1/2");
	assert_string_equal(f->conf->redis.user, "me");
	assert_string_equal(f->conf->redis.password, "p@ss:w/rd");
	printed = conf_printed(f->conf);
	assert_null(strstr(printed, "p@ss"));
	assert_non_null(strstr(printed, "the password is left out here"));
	free(printed);
	conf_write_bytes(f, "quredis.conf", text, strlen(text), 0644);
	conf_read(f, 0);
	assert_refused(f, "quredis.conf:1: redis.url holds a password and others can read this file: chmod 600");
	assert_false(conf_said(f, "p@ss"));
	strcpy(path, conf_write(f, "pass", "x"));
	snprintf(both, sizeof(both), "redis = { url = \"redis://:y@h\"; password_file = \"%s\"; };", path);
	conf_read_text(f, both);
	assert_refused(f, "pass cannot be used together with a password in redis.url");
}

TEST(an_encoded_password_in_the_address, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char *printed;

	conf_read_text(f, "redis = { url = \"redis://m%40e:p%2Fq%23r%40s@host/2\"; };");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.url, "redis://m%40e@host/2");	/* it can be read again */
	assert_string_equal(f->conf->redis.user, "m@e");
	assert_string_equal(f->conf->redis.password, "p/q#r@s");
	printed = conf_printed(f->conf);
	assert_null(strstr(printed, "p%2F"));
	assert_null(strstr(printed, "p/q#"));
	free(printed);
	conf_read_text(f, "\nredis = { url = \"redis://m%4:p%2Fq%zz@host/2\"; };");
	assert_refused(f, ":2: redis.url: " REDIS_URL_BAD_LOGIN);
	assert_false(conf_said(f, "p%2Fq"));
	assert_false(conf_said(f, "p/q#"));
}

TEST(addresses_without_a_password, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_write_bytes(f, "quredis.conf", "redis = { url = \"redis://me@h\"; };", 34, 0644);
	conf_read(f, 0);
	assert_loaded(f);
	assert_string_equal(f->conf->redis.user, "me");
	assert_null(f->conf->redis.password);
	conf_read_text(f, "redis = { url = \"unix:///run/a@b:c@d.sock\"; };");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.url, "unix:///run/a@b:c@d.sock");
	assert_null(f->conf->redis.user);
	conf_read_text(f, "redis = { url = \"redis://:@h\"; };");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.url, "redis://h");
	assert_null(f->conf->redis.password);
}

/* Sentinels decide which server gets the password. */
TEST(sentinels_have_tls_with_redis, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	static const char plain[] = "redis = { url = \"rediss:///0\"; sentinels = [ \"s\" ]; master = \"m\"; tls_verify = true;\n"
				    "sentinel_tls = false; };";
	char *printed;

	conf_read_text(f, "redis = { url = \"rediss:///0\"; sentinels = [ \"s\" ]; master = \"m\"; };");
	assert_loaded(f);
	assert_true(f->conf->redis.sentinel_tls);
	assert_false(conf_said(f, "sentinel_tls"));
	printed = conf_printed(f->conf);
	assert_non_null(strstr(printed, "sentinel_tls = true;"));
	assert_non_null(strstr(printed, "from redis.url"));
	free(printed);
	conf_read_text(f, plain);
	assert_loaded(f);
	assert_false(f->conf->redis.sentinel_tls);
	assert_said(f, "warning: quredis.conf:2: redis.sentinel_tls = false: anyone who can redirect");
	conf_read_text(f, "redis = { sentinels = [ \"s\" ]; master = \"m\"; };");
	assert_loaded(f);
	assert_false(f->conf->redis.sentinel_tls);
	assert_false(conf_said(f, "sentinel_tls"));
}

static void assert_warns_of_plain_text(struct conf_fixture *f, const char *redis, const char *whose)
{
	char text[512];

	snprintf(text, sizeof(text), "redis = { %s };", redis);
	conf_read_text(f, text);
	assert_loaded(f);
	if (whose == NULL)
		assert_false(conf_said(f, "in plain text"));
	else
		assert_said(f, whose);
}

TEST(passwords_in_plain_text, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	static const char redis[] = "warning: quredis.conf:1: the password of Redis crosses the network in plain text";
	static const char sentinels[] = "warning: quredis.conf:1: the password of the Sentinels crosses the network in plain text";
	char group[256], path[128];

	assert_warns_of_plain_text(f, "url = \"redis://:pw@db.example/0\";", redis);
	assert_warns_of_plain_text(f, "url = \"redis://:pw@10.0.0.1,127.0.0.1/0\";", redis);
	assert_warns_of_plain_text(f, "url = \"redis://user@db.example/0\";", NULL);
	assert_warns_of_plain_text(f, "url = \"redis://:pw@127.0.0.1,[::1],localhost/0\";", NULL);
	assert_warns_of_plain_text(f, "url = \"rediss://:pw@db.example/0\";", NULL);
	strcpy(path, conf_write(f, "pass", "pw"));
	snprintf(group, sizeof(group), "url = \"unix:///run/r.sock\"; password_file = \"%s\";", path);
	assert_warns_of_plain_text(f, group, NULL);
	snprintf(group, sizeof(group), "sentinels = [ \"s\" ]; master = \"m\"; sentinel_password_file = \"%s\";", path);
	assert_warns_of_plain_text(f, group, sentinels);
	snprintf(group, sizeof(group), "sentinels = [ \"s\" ]; master = \"m\"; password_file = \"%s\";", path);
	assert_warns_of_plain_text(f, group, redis);
	snprintf(group, sizeof(group), "sentinels = [ \"s\" ]; master = \"m\"; sentinel_tls = true; sentinel_password_file = \"%s\";", path);
	assert_warns_of_plain_text(f, group, NULL);
}

UNIT_MAIN(NULL, NULL)
