/* What is in a file. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/file_text.h"

struct buffer file_bytes;

const char *file_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[65536];
	ssize_t n;

	buffer_clear(&file_bytes);
	if (fd == -1)
		fail_msg("%s: %s", path, strerror(errno));
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		buffer_append(&file_bytes, chunk, (size_t)n);
	close(fd);
	buffer_append(&file_bytes, "", 1);
	return file_bytes.data;
}

void file_contains(const char *path, const char *want)
{
	if (strstr(file_text(path), want) == NULL)
		fail_msg("%s is not in: %.4000s", want, file_bytes.data);
}
