/* ldflags: -Wl,--wrap=accept4 */
#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "supervisor/host/control.h"
#include "tests/unit/unit.h"

static struct control c;
static char path[64];
static int answered;		/* how many lines */
static size_t answer_size;	/* of each answer; 0: it repeats the line */
static int accept_error;

int __real_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags);

int __wrap_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	if (accept_error == 0)
		return __real_accept4(fd, sa, len, flags);
	errno = accept_error;
	return -1;
}

static char *answer(void *arg, const char *line, size_t len, bool may_order, int64_t now_ms)
{
	char *text;

	(void)now_ms;
	assert_true(may_order);
	assert_ptr_equal(arg, &c);
	answered++;
	if (len == 4 && memcmp(line, "none", 4) == 0)
		return NULL;
	if (answer_size == 0)
		return strndup(line, len);
	text = malloc(answer_size + 1);
	memset(text, 'x', answer_size);
	text[answer_size] = '\0';
	return text;
}

static int setup(void **state)
{
	char error[256];

	(void)state;
	memset(&c, 0, sizeof(c));
	answered = accept_error = 0;
	answer_size = 0;
	snprintf(path, sizeof(path), "/tmp/quredis-control.%d", (int)getpid());
	control_init(&c, answer, &c);
	return control_open(&c, path, (gid_t)-1, error, sizeof(error));
}

static int teardown(void **state)
{
	(void)state;
	control_close(&c);
	return 0;
}

static int dial(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(sa.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* A turn of the master's loop. Returns how many descriptors it polled. */
static size_t turn(int64_t now_ms)
{
	struct pollfd fds[CONTROL_POLLFDS];
	size_t n = control_pollfds(&c, fds, now_ms);

	poll(fds, n, 0);
	control_step(&c, fds, n, now_ms);
	return n;
}

static int dial_and_turn(int64_t now_ms)
{
	int fd = dial();

	turn(now_ms);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* What came so far; "closed" behind it if no more can come. */
static const char *heard(int fd)
{
	static char text[8192];
	size_t len = 0;
	ssize_t n;

	while ((n = recv(fd, text + len, sizeof(text) - len - 8, 0)) > 0)
		len += (size_t)n;
	strcpy(text + len, n == 0 || errno != EAGAIN ? "closed" : "");
	return text;
}

TEST(a_line_in_pieces_is_one_request, setup, teardown)
{
	int fd = dial_and_turn(0);

	say(fd, "sta");
	turn(10);
	assert_int_equal(answered, 0);
	say(fd, "tus\n");
	turn(20);
	assert_string_equal(heard(fd), "status\n");
	close(fd);
}

TEST(several_lines_at_once_are_answered_in_order, setup, teardown)
{
	int fd = dial_and_turn(0);

	say(fd, "one\ntwo\n\nthr");
	turn(0);
	assert_string_equal(heard(fd), "one\ntwo\n\n");
	say(fd, "ee\n");
	turn(0);
	assert_string_equal(heard(fd), "three\n");
	close(fd);
}

TEST(a_line_that_is_too_long_is_refused_and_ends_the_connection, setup, teardown)
{
	char line[CONTROL_LINE_MAX + 1];
	int fd = dial_and_turn(0);

	memset(line, 'x', sizeof(line));
	line[CONTROL_LINE_MAX - 1] = '\n';
	line[CONTROL_LINE_MAX] = '\0';
	say(fd, line);
	turn(0);
	assert_int_equal(answered, 1);
	assert_int_equal(strlen(heard(fd)), CONTROL_LINE_MAX);
	line[CONTROL_LINE_MAX - 1] = 'x';
	say(fd, line);
	turn(0);
	assert_string_equal(heard(fd), "{\"ok\":false,\"error\":\"a request is at most 4095 bytes\"}\nclosed");
	assert_int_equal(answered, 1);
	close(fd);
}

TEST(without_an_answer_the_connection_ends, setup, teardown)
{
	int fd = dial_and_turn(0);

	say(fd, "none\nnext\n");
	turn(0);
	assert_string_equal(heard(fd), "closed");
	assert_int_equal(answered, 1);
	close(fd);
}

TEST(a_client_that_does_not_read_is_asked_for_no_more, setup, teardown)
{
	int fd = dial_and_turn(0);

	answer_size = 4000000;
	say(fd, "one\ntwo\n");
	for (int64_t now = 0; now < 9000; now += 1000)
		turn(now);
	assert_int_equal(answered, 1);
	for (int i = 0; i < 10000 && answered == 1; i++) {
		heard(fd);
		turn(9000);
	}
	assert_int_equal(answered, 2);
	close(fd);
}

TEST(ten_seconds_without_a_byte_end_a_line_or_an_answer, setup, teardown)
{
	int half = dial_and_turn(0), deaf = dial_and_turn(0);

	say(half, "ha");
	answer_size = 4000000;
	say(deaf, "one\n");
	turn(1000);
	turn(10999);
	assert_string_equal(heard(half), "");
	turn(11000);
	assert_string_equal(heard(half), "closed");
	assert_int_equal(turn(11000), 1);
	close(half);
	close(deaf);
}

TEST(a_client_that_reads_slowly_is_waited_for, setup, teardown)
{
	static char data[65536];
	int fd = dial_and_turn(0);

	answer_size = 4000000;
	say(fd, "one\n");
	for (int64_t now = 0; now < 50000; now += 9000) {
		turn(now);
		assert_true(recv(fd, data, sizeof(data), 0) > 0);
		while (recv(fd, data, sizeof(data), 0) > 0)
			;
	}
	close(fd);
}

TEST(half_a_line_ends_with_its_client, setup, teardown)
{
	int fd = dial_and_turn(0);

	say(fd, "half");
	turn(0);
	close(fd);
	turn(0);
	fd = dial_and_turn(0);
	say(fd, "one\n");
	turn(0);
	assert_string_equal(heard(fd), "one\n");
	close(fd);
}

TEST(a_client_between_two_requests_may_wait, setup, teardown)
{
	int fd = dial_and_turn(0);

	say(fd, "one\n");
	turn(0);
	turn(1000000);
	assert_string_equal(heard(fd), "one\n");
	close(fd);
}

/* The places are full; each client spoke 100 ms after the one before. */
static void fill(int fds[CONTROL_CLIENTS])
{
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		fds[i] = dial_and_turn(100 * i);
}

TEST(a_new_client_takes_the_place_of_the_idlest, setup, teardown)
{
	int fds[CONTROL_CLIENTS], late, later;

	fill(fds);
	late = dial_and_turn(1600);
	assert_string_equal(heard(fds[0]), "closed");
	assert_string_equal(heard(fds[1]), "");
	say(fds[1], "one\n");
	turn(1700);
	later = dial_and_turn(1700);
	assert_string_equal(heard(fds[1]), "one\n");
	assert_string_equal(heard(fds[2]), "closed");
	say(later, "two\n");
	turn(1700);
	assert_string_equal(heard(later), "two\n");
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		close(fds[i]);
	close(late);
	close(later);
}

TEST(busy_clients_keep_their_places_and_new_ones_wait, setup, teardown)
{
	int fds[CONTROL_CLIENTS], late;

	for (int i = 0; i < CONTROL_CLIENTS; i++)
		fds[i] = dial_and_turn(0);
	late = dial();
	assert_int_equal(turn(999), CONTROL_CLIENTS);
	assert_string_equal(heard(fds[0]), "");
	assert_int_equal(turn(1000), CONTROL_CLIENTS + 1);
	assert_string_equal(heard(fds[0]), "closed");
	for (int i = 0; i < CONTROL_CLIENTS; i++)
		close(fds[i]);
	close(late);
}

TEST(without_a_descriptor_for_a_client_it_waits_half_a_second, setup, teardown)
{
	int fd = dial();

	accept_error = EMFILE;
	assert_int_equal(turn(1000), 1);
	accept_error = 0;
	assert_int_equal(turn(1499), 0);
	assert_int_equal(turn(1500), 1);
	say(fd, "one\n");
	turn(1500);
	assert_string_equal(heard(fd), "one\n");
	accept_error = ECONNABORTED;
	close(dial_and_turn(2000));
	accept_error = 0;
	assert_int_equal(turn(2000), 2);
	close(fd);
}

TEST(a_child_closes_the_socket_and_leaves_its_file, setup, teardown)
{
	int fd = dial_and_turn(0);

	control_close_in_child(&c);
	assert_int_equal(c.fd, -1);
	assert_string_equal(heard(fd), "closed");
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(path), 0);
	close(fd);
}

TEST(the_master_removes_its_own_socket_only, setup, teardown)
{
	struct control other = {0};
	char error[256];

	control_init(&other, answer, &other);
	assert_int_equal(control_open(&other, path, (gid_t)-1, error, sizeof(error)), EX_TEMPFAIL);
	assert_non_null(strstr(error, "another process answers there"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(control_open(&other, path, (gid_t)-1, error, sizeof(error)), EX_OK);
	control_close(&c);
	assert_int_equal(access(path, F_OK), 0);
	control_close(&other);
	assert_int_equal(access(path, F_OK), -1);
}

UNIT_MAIN(NULL, NULL)
