/* Configuration for targets that need one but are not about it. */
#include <sys/mman.h>
#include <sys/stat.h>

#include <string.h>
#include <unistd.h>

#include "tests/fuzz/conf_text.h"

#include "common/base/alloc.h"
#include "tests/fuzz/input.h"

char *conf_text_path(const char *text)
{
	int fd = memfd_create("conf", MFD_CLOEXEC);

	FUZZ_ASSERT(fd != -1 && fchmod(fd, 0600) == 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	return alloc_format("/proc/self/fd/%d", fd);
}

struct conf *conf_text_load(const char *text)
{
	struct conf_report report;
	char *path = conf_text_path(text);
	struct conf *conf = conf_load(path, CONF_LENIENT_HANDLERS, &report);

	conf_report_print(&report, stderr);
	FUZZ_ASSERT(conf != NULL);
	conf_report_free(&report);
	free(path);
	return conf;
}
