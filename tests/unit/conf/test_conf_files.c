/* links: tests/unit/descriptors.c tests/unit/conf/conf_fixture.c */

/* What of the machine matters to a configuration: its own files, with their owners and modes. And loading leaves nothing open. */
#include <sys/stat.h>

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/conf/conf_fixture.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/unit.h"

static void as_root_only(void)
{
	if (geteuid() != 0)
		skip();
}

TEST(files_that_cannot_be_read, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read(f, 0);
	assert_string_equal(f->report, "quredis.conf: the configuration file does not exist\n");
	assert_int_equal(mkdir(f->path, 0755), 0);
	conf_read(f, 0);
	assert_refused(f, "quredis.conf: the configuration file is a directory");
	assert_int_equal(rmdir(f->path), 0);
	assert_int_equal(mkfifo(f->path, 0600), 0);
	conf_read(f, 0);		/* does not wait for a writer */
	assert_refused(f, "quredis.conf: the configuration file is not a regular file");
	assert_int_equal(unlink(f->path), 0);
	if (geteuid() != 0) {
		conf_write_bytes(f, "quredis.conf", "", 0, 0);
		conf_read(f, 0);
		assert_refused(f, "quredis.conf: the configuration file cannot be read: Permission denied");
	}
}

TEST(files_that_others_can_change, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char dir[128];

	conf_write_bytes(f, "quredis.conf", "", 0, 0620);
	conf_read(f, 0);
	assert_refused(f, "quredis.conf: the configuration file can be written by others (mode 0620): chmod go-w ");
	conf_write_bytes(f, "quredis.conf", "", 0, 0602);
	conf_read(f, 0);
	assert_refused(f, "(mode 0602)");
	conf_write_bytes(f, "quredis.conf", "", 0, 0644);
	conf_read(f, 0);
	assert_loaded(f);
	conf_write_bytes(f, "conf.d/a.conf", "", 0, 0666);
	conf_read(f, 0);
	assert_refused(f, "conf.d/a.conf: the configuration file can be written by others (mode 0666)");
	conf_write_bytes(f, "conf.d/a.conf", "", 0, 0644);
	snprintf(dir, sizeof(dir), "%s/conf.d", f->dir);
	chmod(dir, 0777);
	conf_read(f, 0);
	assert_refused(f, "conf.d: can be written by others (mode 0777): chmod go-w ");
}

TEST(files_of_others, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	as_root_only();
	conf_write(f, "quredis.conf", "");
	assert_int_equal(chown(f->path, 12345, 0), 0);
	conf_read(f, 0);
	assert_refused(f, "quredis.conf: the configuration file belongs to uid 12345, expected root");
}

TEST(files_that_are_no_text, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char *large = calloc(1, (1 << 20) + 1);

	conf_write_bytes(f, "quredis.conf", "\n\nlog = { };\0x", 14, 0600);
	conf_read(f, 0);
	assert_refused(f, "quredis.conf:3: the file contains a NUL byte");
	memset(large, '\n', (1 << 20) + 1);
	conf_write_bytes(f, "quredis.conf", large, (1 << 20) + 1, 0600);
	conf_read(f, 0);
	assert_refused(f, "quredis.conf: the configuration file is larger than 1048576 bytes");
	conf_write_bytes(f, "quredis.conf", large, 1 << 20, 0600);
	conf_read(f, 0);
	assert_loaded(f);
	free(large);
}

TEST(loading_leaves_nothing_open, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	size_t before;
	char path[256];

	strcpy(path, conf_write(f, "pass", "x"));
	conf_write(f, "conf.d/a.conf", "queues = ( { name = \"a\"; handler = [\"/bin/true\"]; run_as = { group = \"daemon\"; }; } );");
	conf_write(f, "conf.d/b.conf", "queues = ( { name = \"b\"; handler = [\"/nowhere\"]; } );");
	conf_read_with_password_file(f, path, 0);
	before = descriptors_open();
	for (int i = 0; i < 100; i++)
		conf_read_with_password_file(f, i % 2 == 0 ? path : "/nowhere", i % 3 == 0 ? CONF_LENIENT_HANDLERS : 0);
	assert_int_equal(descriptors_open(), before);
}

UNIT_MAIN(NULL, NULL)
