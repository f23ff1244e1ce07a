/*
 * A client of beanstalkd that is as fast as its protocol lets it be: batches of jobs are reserved in the
 * same write that deletes the batch before.
 *
 *	beanstalk PORT put COUNT BYTES
 *	beanstalk PORT drain JOBS BATCH		until nothing is ready; prints the number of jobs and the time
 */
#include <sys/socket.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH_MAX 256

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	_exit(1);
}

static int dial(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	must(fd != -1 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void line(FILE *in, char *buffer, size_t size)
{
	must(fgets(buffer, (int)size, in) != NULL, "answer");
}

/* Answers are read while it writes no more than the server's and our sockets hold. */
static void put(int port, long count, size_t bytes)
{
	FILE *in = fdopen(dial(port), "r+"), *out = fdopen(dup(fileno(in)), "w");
	char *body = malloc(bytes), answer[64];

	memset(body, 'x', bytes);
	for (long sent = 0, some; sent < count; sent += some) {
		some = count - sent < 100 ? count - sent : 100;
		for (long i = 0; i < some; i++) {
			fprintf(out, "put 0 0 600 %zu\r\n", bytes);
			fwrite(body, 1, bytes, out);
			fwrite("\r\n", 1, 2, out);
		}
		fflush(out);
		for (long i = 0; i < some; i++) {
			line(in, answer, sizeof(answer));
			must(strncmp(answer, "INSERTED", 8) == 0, answer);
		}
	}
	free(body);
}

static int take_batch(FILE *in, int asked, uint64_t *ids)
{
	char answer[64], body[65536 + 2];
	int got = 0;

	for (int i = 0; i < asked; i++) {
		unsigned long long id;
		size_t bytes;

		line(in, answer, sizeof(answer));
		if (sscanf(answer, "RESERVED %llu %zu", &id, &bytes) != 2)
			continue;
		must(bytes + 2 <= sizeof(body) && fread(body, 1, bytes + 2, in) == bytes + 2, "body");
		ids[got++] = id;
	}
	return got;
}

static uint64_t drain(int port, int batch)
{
	FILE *in = fdopen(dial(port), "r"), *out = fdopen(dup(fileno(in)), "w");
	uint64_t ids[BATCH_MAX], total = 0;
	char answer[64];
	int have = 0;

	do {
		for (int i = 0; i < have; i++)
			fprintf(out, "delete %llu\r\n", (unsigned long long)ids[i]);
		for (int i = 0; i < batch; i++)
			fprintf(out, "reserve-with-timeout 0\r\n");
		fflush(out);
		for (int i = 0; i < have; i++) {
			line(in, answer, sizeof(answer));
			must(strncmp(answer, "DELETED", 7) == 0, answer);
		}
		total += (uint64_t)have;
		have = take_batch(in, batch, ids);
	} while (have > 0);
	return total;
}

int main(int argc, char **argv)
{
	uint64_t total = 0, n;
	double begin = now_s();
	int pipes[2], port, jobs;

	must(argc == 5 && pipe(pipes) == 0, "arguments");
	port = atoi(argv[1]);
	if (strcmp(argv[2], "put") == 0) {
		put(port, atol(argv[3]), strtoul(argv[4], NULL, 10));
		return 0;
	}
	jobs = atoi(argv[3]);
	must(atoi(argv[4]) > 0 && atoi(argv[4]) <= BATCH_MAX, "batch");
	for (int i = 0; i < jobs; i++) {
		if (fork() == 0) {
			n = drain(port, atoi(argv[4]));
			_exit(write(pipes[1], &n, sizeof(n)) != sizeof(n));
		}
	}
	close(pipes[1]);
	for (int i = 0; i < jobs; i++) {
		must(read(pipes[0], &n, sizeof(n)) == sizeof(n), "a loop");
		total += n;
	}
	printf("%llu %.6f\n", (unsigned long long)total, now_s() - begin);
	return 0;
}
