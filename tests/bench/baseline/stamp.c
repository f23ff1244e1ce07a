/*
 * A handler for one message: the nanosecond (CLOCK_MONOTONIC) at which it was pushed. Appends to the file
 * that is its argument how long ago that was, as 8 bytes. The clock is read before anything else.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec ts;
	char text[64] = "";
	int64_t took;
	int fd;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (argc != 2 || read(STDIN_FILENO, text, sizeof(text) - 1) <= 0)
		return 1;
	took = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec - strtoll(text, NULL, 10);
	fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
	return fd == -1 || write(fd, &took, sizeof(took)) != sizeof(took);
}
