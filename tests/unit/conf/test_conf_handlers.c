/* links: tests/unit/conf/conf_fixture.c */

/* What of the machine matters to the handlers of a configuration: executables, paths, users. */
#include <sys/stat.h>

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/conf/conf_fixture.h"
#include "tests/unit/unit.h"

static void as_root_only(void)
{
	if (geteuid() != 0)
		skip();
}

static void read_handler(struct conf_fixture *f, const char *handler, const char *more)
{
	char text[1024];

	snprintf(text, sizeof(text), "queues = ( { name = \"a\"; timeout = \"1s\"; handler = [\"%s\"]; %s } );", handler, more);
	conf_write(f, "quredis.conf", text);
	conf_read(f, 0);
}

TEST(handlers, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char path[256];

	read_handler(f, "/bin/true", "");
	assert_loaded(f);
	strcpy(path, conf_write_bytes(f, "run", "#!/bin/sh\n", 10, 0755));
	read_handler(f, path, "");
	assert_loaded(f);
	chmod(path, 0644);
	read_handler(f, path, "");
	assert_loaded(f);
	assert_said(f, "quredis.conf:1: handler: run: the supervisor's user may not execute it (mode 0644): chmod +x run\n");
	chmod(path, 0757);
	read_handler(f, path, "");
	assert_refused(f, "handler: every user can write run (mode 0757): chmod go-w ");
	assert_int_equal(unlink(path), 0);
	read_handler(f, path, "");
	assert_loaded(f);
	assert_said(f, "queue held: quredis.conf:1: handler: run: it does not exist: put it there, or correct the path\n");
	conf_write_bytes(f, "rum", "#!/bin/sh\n", 10, 0755);
	read_handler(f, path, "");
	assert_said(f, "handler: run: it does not exist: did you mean rum?\n");
	read_handler(f, f->dir, "");
	assert_loaded(f);
	assert_said(f, "it is not a regular file");
	read_handler(f, "true", "");
	assert_refused(f, "handler: expected an absolute path as the first element, not \"true\"");
	read_handler(f, "/bin/true", "run_as = { directory = \"/nowhere\"; };");
	assert_loaded(f);
	assert_said(f, "queue held: quredis.conf:1: run_as.directory: /nowhere: it does not exist: ");
	read_handler(f, "/bin/true", "run_as = { directory = \"/bin/true\"; };");
	assert_loaded(f);
	assert_said(f, "queue held: quredis.conf:1: run_as.directory: /bin/true: it is not a directory: ");
}

/* They may come until they are needed. */
static uint64_t files_of(struct conf_fixture *f, const char *text)
{
	conf_write(f, "quredis.conf", text);
	conf_read(f, 0);
	assert_loaded(f);
	return conf_handler_files(f->conf->queues[0]);
}

TEST(the_files_of_a_handler_that_stays, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char run[256], data[256], text[1024], other[300];
	uint64_t first, linked;

	strcpy(run, conf_write_bytes(f, "run", "#!/bin/sh\n", 10, 0755));
	strcpy(data, conf_write_bytes(f, "data", "1", 1, 0644));
	snprintf(text, sizeof(text), "queues = ( { name = \"a\"; timeout = \"1s\"; mode = \"persistent\"; "
	    "handler = [\"/bin/sh\", \"%s\", \"/not/there\", \"%s\"]; } );", run, data);
	first = files_of(f, text);
	assert_true(first != 0);
	assert_true(files_of(f, text) == first);
	conf_write_bytes(f, "data", "22", 2, 0644);
	assert_true(files_of(f, text) == first);		/* it may be a file that the handler writes */
	snprintf(other, sizeof(other), "%s.two", run);
	assert_int_equal(link(run, other), 0);			/* changes the time of the inode, too */
	first = files_of(f, text);
	assert_int_equal(rename(run, data) | symlink(other, run), 0);
	linked = files_of(f, text);
	assert_true(linked != 0 && linked != first);		/* the same file by another path, as of another release */
	for (int i = 0; i < 1000 && files_of(f, text) == linked; i++)	/* the kernel counts some milliseconds as one */
		conf_write_bytes(f, "run.two", "#!/bin/sh\n", 10, 0755);
	assert_true(files_of(f, text) != linked);		/* written again, as it was */
	snprintf(text, sizeof(text), "queues = ( { name = \"a\"; timeout = \"1s\"; handler = [\"%s\"]; } );", run);
	assert_true(files_of(f, text) == 0);		/* one process for each message */
	snprintf(text, sizeof(text), "queues = ( { name = \"a\"; timeout = \"1s\"; mode = \"persistent\"; ready = %s; "
	    "handler = [\"%s\"]; } );", "false", run);
	first = files_of(f, text);
	assert_int_equal(unlink(run), 0);
	assert_true(first != 0 && files_of(f, text) == 0);	/* nothing follows: the old handler would end */
	snprintf(text, sizeof(text), "queues = ( { name = \"a\"; timeout = \"1s\"; mode = \"persistent\"; ready = %s; "
	    "handler = [\"%s\"]; } );", "true", run);
	linked = files_of(f, text);
	assert_true(linked != 0 && linked != first);		/* it is tried, and the old one goes on */
}

TEST(what_is_needed_later, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_write(f, "quredis.conf", "dead_letter = { ttl = \"1d\"; archive = \"/nowhere\"; };\n"
	    "\nmetrics = { textfile = \"/nowhere/a.prom\"; };\n"
	    "queues = ( { name = \"a\"; timeout = \"1s\"; handler = [\"/bin/true\"];\n"
	    " dead_letter = { archive = \"/bin/true\"; }; } );");
	conf_read(f, 0);
	assert_loaded(f);
	assert_said(f, "warning: quredis.conf:1: dead_letter.archive: /nowhere: No such file or directory");
	assert_said(f, "warning: quredis.conf:3: metrics.textfile: /nowhere: No such file or directory");
	assert_said(f, "warning: quredis.conf:5: dead_letter.archive: /bin/true is not a directory");
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_string_equal(f->report, "");
}

/* One for many queues is told of once. */
TEST(checks_of_purge, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char text[1024];

	snprintf(text, sizeof(text), "purge = { check = [\"%s\"]; };\ndefaults = { timeout = \"1s\"; handler = [\"/bin/true\"]; };\n"
	    "queues = ( { name = \"a\"; purge = { check = [\"/nowhere/check\"]; }; },\n"
	    "{ name = \"b\"; }, { name = \"c\"; }, { name = \"d\"; purge = { check = [\"check\"]; }; } );", f->dir);
	conf_write(f, "quredis.conf", text);
	conf_read(f, 0);
	assert_refused(f, "quredis.conf:1: purge.check: ");
	assert_said(f, " it is not a regular file: name a file instead of ");
	assert_said(f, "queue held: quredis.conf:3: purge.check: /nowhere/check: it does not exist: ");
	assert_said(f, "quredis.conf:4: purge.check: expected an absolute path as the first element, not \"check\"\n");
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_refused(f, "quredis.conf:4: purge.check: expected an absolute path as the first element");
	conf_write(f, "quredis.conf", "purge = { check = [\"/bin/true\", \"-x\"]; };\n"
	    "queues = ( { name = \"a\"; timeout = \"1s\"; handler = [\"/bin/true\"]; } );");
	conf_read(f, 0);
	assert_loaded(f);
}

/* An error for handlers that run as root, and for all if everybody can change them; else a warning. */
TEST(handlers_that_others_can_change, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char path[256], dir[256], purge[300];
	bool root = geteuid() == 0;

	strcpy(path, conf_write_bytes(f, "bin/run", "#!/bin/sh\n", 10, 0755));
	snprintf(dir, sizeof(dir), "%s/bin", f->dir);
	chmod(dir, 0757);
	read_handler(f, path, root ? "run_as = { user = \"nobody\"; };" : "");
	assert_refused(f, "quredis.conf:1: handler: every user can write bin (mode 0757): chmod go-w ");
	chmod(dir, 01777);
	read_handler(f, path, "");
	assert_loaded(f);
	assert_false(conf_said(f, "write"));
	chmod(dir, 0775);
	read_handler(f, path, "");
	assert_said(f, "quredis.conf:1: handler: its group (gid ");
	assert_true((f->conf == NULL) == root && conf_said(f, "warning: quredis.conf:1: handler: ") != root);
	if (!root)
		skip();
	read_handler(f, path, "run_as = { user = \"nobody\"; };");
	assert_loaded(f);
	assert_said(f, "warning: quredis.conf:1: handler: its group (gid ");
	chmod(dir, 0755);
	assert_int_equal(chown(path, 65534, 65534), 0);
	read_handler(f, path, "");
	assert_refused(f, "quredis.conf:1: handler: bin/run belongs to uid 65534, expected root: chown root ");
	read_handler(f, path, "run_as = { user = \"nobody\"; };");
	assert_loaded(f);
	assert_false(conf_said(f, "belongs"));
	read_handler(f, "/bin/true", "");
	assert_loaded(f);
	snprintf(purge, sizeof(purge), "purge = { check = [\"%s\"]; };", path);
	read_handler(f, "/bin/true", purge);
	assert_refused(f, "quredis.conf:1: purge.check: bin/run belongs to uid 65534");
}

/* A script that an interpreter runs, and the runner of a function, are what runs. */
TEST(scripts_that_others_can_change, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char script[256], text[512];

	strcpy(script, conf_write_bytes(f, "script", ":\n", 2, 0757));
	snprintf(text, sizeof(text), "queues = ( { name = \"a\"; timeout = \"1s\"; handler = [\"/bin/sh\", \"%s\"]; } );",
	    script);
	conf_write(f, "quredis.conf", text);
	conf_read(f, 0);
	assert_refused(f, "quredis.conf:1: handler: every user can write script (mode 0757): chmod go-w ");
	chmod(script, 0755);
	conf_read(f, 0);
	assert_loaded(f);
}

/* Who can change the configuration commands the handlers; who can change the rest can only keep it from being written. */
TEST(other_paths_that_others_can_change, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char path[256], text[1024];
	bool root = geteuid() == 0;

	read_handler(f, "/bin/true", "");
	assert_int_equal(chmod(f->dir, 0775), 0);
	conf_read(f, 0);
	assert_said(f, root ? "quredis.conf: the configuration file: its group (gid " : "warning: quredis.conf: the configuration file: its group (gid ");
	assert_true((f->conf == NULL) == root);
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_string_equal(f->report, "");
	assert_int_equal(chmod(f->dir, 0755), 0);
	strcpy(path, conf_write_bytes(f, "open/pass", "x", 1, 0600));
	snprintf(text, sizeof(text), "%s/open", f->dir);
	assert_int_equal(chmod(text, 0777), 0);
	conf_read_with_password_file(f, path, 0);
	assert_refused(f, "redis.password_file: every user can write open (mode 0777)");
	assert_int_equal(chmod(text, 01777), 0);
	conf_read_with_password_file(f, path, 0);
	assert_loaded(f);
	snprintf(text, sizeof(text), "log = { target = \"%s/open/log\"; };\nsupervisor = { lock_file = \"%s/open/lock\"; };\n"
	    "dead_letter = { ttl = \"1d\"; archive = \"%s/open/archive\"; };\nmetrics = { textfile = \"%s/open/q.prom\"; };\n"
	    "queues = ( { name = \"a\"; timeout = \"1s\"; handler = [\"/bin/true\"]; } );", f->dir, f->dir, f->dir, f->dir);
	conf_write(f, "quredis.conf", text);
	conf_read(f, 0);
	assert_loaded(f);
	assert_said(f, "warning: quredis.conf:1: log.target: open/log does not exist, and others can create it first\n");
	assert_said(f, "warning: quredis.conf:2: supervisor.lock_file: open/lock does not exist, and others can create it first\n");
	assert_said(f, "warning: quredis.conf:3: dead_letter.archive: open/archive does not exist, and others can create it first\n");
	assert_said(f, "warning: quredis.conf:4: metrics.textfile: open/q.prom does not exist, and others can create it first\n");
}

TEST(env_that_everybody_can_read, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	const char *told = "warning: quredis.conf:1: env: every user can read this file, and the values in it: chmod o-r quredis.conf";
	const char *text = "queues = ( { name = \"a\"; timeout = \"1s\"; handler = [\"/bin/true\"]; env = [\"A=hush\"]; },\n"
	    "{ name = \"b\"; timeout = \"1s\"; handler = [\"/bin/true\"]; env = [\"A=hush\"]; } );";

	conf_write_bytes(f, "quredis.conf", text, strlen(text), 0644);
	conf_read(f, 0);
	assert_loaded(f);
	assert_said(f, told);
	assert_false(conf_said(f, "hush"));
	assert_false(conf_said(f, "quredis.conf:2: env"));
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_string_equal(f->report, "");
	conf_write_bytes(f, "quredis.conf", text, strlen(text), 0640);
	conf_read(f, 0);
	assert_false(conf_said(f, "env:"));
	read_handler(f, "/bin/true", "env = [\"PATH\"];");
	chmod(f->path, 0644);
	conf_read(f, 0);
	assert_false(conf_said(f, "env:"));
}

TEST(users_that_are_not_there, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	read_handler(f, "/bin/true", "run_as = { user = \"no such user\"; group = \"no such group\"; };");
	assert_refused(f, "quredis.conf:1: run_as.user: user \"no such user\" does not exist");
	assert_said(f, "quredis.conf:1: run_as.group: group \"no such group\" does not exist");
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_loaded(f);
}

TEST(a_control_group_that_is_not_there, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_write(f, "quredis.conf", "supervisor = { control_group = \"no such group\"; };\n");
	conf_read(f, 0);
	assert_refused(f, "quredis.conf:1: supervisor.control_group: group \"no such group\" does not exist");
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_loaded(f);
}

/* Once, at the first, and with as many names as a line can have. */
static void several_run_as_root(struct conf_fixture *f)
{
	char text[4096] = "queues = (\n{ name = \"x\"; handler = [\"/bin/true\"]; run_as = { user = \"nobody\"; }; },\n";

	for (int i = 1; i <= 12; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s{ name = \"q%d\"; handler = [\"/bin/true\"]; }", i > 1 ? ",\n" : "", i);
	strcat(text, ");\n");
	conf_write(f, "quredis.conf", text);
	conf_read(f, 0);
	assert_loaded(f);
	assert_string_equal(f->report, "warning: quredis.conf:3: queues q1, q2, q3, q4, q5, q6, q7, q8, q9, q10 and 2 more: "
	    "without run_as.user their handlers run as root, unless supervisor.user is set\n");
}

TEST(root_may_run_as_anyone, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	const struct passwd *nobody = getpwnam("nobody");
	const struct conf_run_as *r;
	char path[256];

	as_root_only();
	assert_non_null(nobody);
	read_handler(f, "/bin/true", "");
	assert_said(f, "warning: quredis.conf:1: queue a: without run_as.user its handlers run as root");
	assert_false(f->conf->queues[0]->run_as.switch_user);
	several_run_as_root(f);
	read_handler(f, "/bin/true", "run_as = { user = \"nobody\"; };");
	assert_loaded(f);
	assert_string_equal(f->report, "warning: quredis.conf:1: quredisd runs as root, and so do its processes that read from Redis: set supervisor.user\n");
	r = &f->conf->queues[0]->run_as;
	assert_true(r->switch_user);
	assert_int_equal(r->uid, nobody->pw_uid);
	assert_int_equal(r->gid, nobody->pw_gid);
	assert_true(r->ngroups >= 1);
	assert_string_equal(r->home, nobody->pw_dir);
	assert_string_equal(r->login, "nobody");
	read_handler(f, "/bin/true", "run_as = { user = \"nobody\"; group = \"daemon\"; };");
	assert_loaded(f);
	assert_int_equal(f->conf->queues[0]->run_as.gid, getgrnam("daemon")->gr_gid);
	strcpy(path, conf_write_bytes(f, "run", "#!/bin/sh\n", 10, 0700));
	read_handler(f, path, "run_as = { user = \"nobody\"; };");
	assert_said(f, "handler: run: nobody may not execute it (mode 0700): chmod +x run\n");
	chmod(path, 0701);
	read_handler(f, path, "run_as = { user = \"nobody\"; };");
	assert_loaded(f);
}

TEST(others_only_as_themselves, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	const struct passwd *me = getpwuid(geteuid());
	char more[256];

	if (geteuid() == 0 || me == NULL)
		skip();
	read_handler(f, "/bin/true", "run_as = { user = \"root\"; };");
	assert_refused(f, "run_as.user: only root can run handlers as \"root\"");
	snprintf(more, sizeof(more), "run_as = { user = \"%s\"; };", me->pw_name);
	read_handler(f, "/bin/true", more);
	assert_loaded(f);
	assert_false(f->conf->queues[0]->run_as.switch_user);
	assert_string_equal(f->conf->queues[0]->run_as.login, me->pw_name);
}

UNIT_MAIN(NULL, NULL)
