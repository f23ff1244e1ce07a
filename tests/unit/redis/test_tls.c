/* links: tests/unit/redis/tls_peer.c */

/* TLS on one socket whose other end is this test: what it polls for, how much it reads, and what the end of a connection means. */
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "common/base/base.h"
#include "common/redis/tls.h"
#include "tests/unit/redis/tls_peer.h"
#include "tests/unit/unit.h"

static struct buffer got;

static bool take(void *arg, const char *bytes, size_t len)
{
	(void)arg;
	buffer_append(&got, bytes, len);
	return true;
}

static int setup(void **state)
{
	*state = tls_peer_open();
	return 0;
}

static int teardown(void **state)
{
	buffer_free(&got);
	tls_peer_close(*state);
	return 0;
}

TEST(a_handshake_waits_for_the_peer, setup, teardown)
{
	struct tls_peer *p = *state;

	assert_int_equal(tls_events(p->tls, false), POLLOUT);
	assert_null(tls_silence(p->tls));			/* it sent nothing yet */
	assert_int_equal(tls_handshake(p->tls), 0);
	assert_int_equal(tls_events(p->tls, true), POLLIN);	/* output has to wait */
	assert_non_null(strstr(tls_silence(p->tls), "does the server speak TLS"));
	tls_peer_shake_hands(p);
	assert_true(tls_ready(p->tls));
	assert_null(tls_silence(p->tls));
	assert_int_equal(tls_events(p->tls, false), POLLIN);
	assert_int_equal(tls_events(p->tls, true), POLLIN | POLLOUT);
	assert_true(tls_received(p->tls) > 0 && tls_sent(p->tls) > 0);
}

/* poll() sees the socket alone: after a read nothing is left in OpenSSL but what waits for more bytes. */
TEST(a_read_leaves_nothing_behind, setup, teardown)
{
	struct tls_peer *p = *state;

	tls_peer_shake_hands(p);
	for (int i = 0; i < 100; i++)
		tls_peer_say(p, "+OK\r\n", 5);
	assert_int_equal(tls_read(p->tls, take, NULL), 0);
	assert_int_equal(got.len, 500);
	assert_int_equal(tls_read(p->tls, take, NULL), 0);
	assert_int_equal(got.len, 500);
}

/* A peer that sends without end must not keep the loop of a worker. */
TEST(a_turn_is_bounded, setup, teardown)
{
	struct tls_peer *p = *state;
	struct pollfd readable = { .fd = p->fd, .events = POLLIN };
	char *text = alloc_zero(1, 2 * TLS_TURN);
	uint64_t before;

	tls_peer_shake_hands(p);
	tls_peer_say(p, text, 2 * TLS_TURN);
	before = tls_received(p->tls);
	assert_int_equal(tls_read(p->tls, take, NULL), 0);
	assert_int_equal(tls_received(p->tls) - before, TLS_TURN);
	assert_true(got.len > TLS_TURN / 2 && got.len <= TLS_TURN);
	assert_int_equal(poll(&readable, 1, 0), 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(tls_read(p->tls, take, NULL), 0);
	assert_int_equal(got.len, 2 * TLS_TURN);
	free(text);
}

TEST(a_write_goes_on_where_the_kernel_stopped, setup, teardown)
{
	const size_t len = 4 << 20;
	struct tls_peer *p = *state;
	char *text = alloc_zero(1, len), *moved;
	size_t sent = 0;
	bool full = false;
	ssize_t n;

	tls_peer_shake_hands(p);
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(i * 7 / 3);
	while (sent < len) {
		n = tls_write(p->tls, text + sent, len - sent);
		if (n == -1) {
			assert_int_equal(errno, EAGAIN);
			full = true;
			moved = alloc_copy(text, len);		/* as the buffer of commands moves when it grows */
			free(text);
			text = moved;
			tls_peer_hear(p, &got);
			continue;
		}
		sent += (size_t)n;
	}
	while (got.len < len)
		tls_peer_hear(p, &got);
	assert_true(full);
	assert_memory_equal(got.data, text, len);
	free(text);
}

/* In both directions, while data passes: TLS 1.3 may change its keys at any time, and the peer may ask for ours. */
TEST(keys_change, setup, teardown)
{
	struct tls_peer *p = *state;

	tls_peer_shake_hands(p);
	for (int i = 0; i < 20; i++) {
		tls_peer_change_keys(p);
		tls_peer_say(p, "abc", 3);
		assert_int_equal(tls_read(p->tls, take, NULL), 0);
		assert_int_equal(tls_write(p->tls, "defg", 4), 4);
		tls_peer_hear(p, &got);
	}
	assert_int_equal(got.len, 20 * 7);
	assert_int_equal(tls_events(p->tls, false), POLLIN);
}

/* The last answer of a server may say why it closes the connection. */
TEST(bytes_before_the_end_come_first, setup, teardown)
{
	struct tls_peer *p = *state;

	tls_peer_shake_hands(p);
	tls_peer_say(p, "-ERR max", 8);
	tls_peer_hang_up(p);
	assert_int_equal(tls_read(p->tls, take, NULL), 0);
	assert_int_equal(got.len, 8);
	assert_int_equal(tls_events(p->tls, false) & POLLOUT, POLLOUT);	/* wakes the caller for the next read */
	assert_int_equal(tls_read(p->tls, take, NULL), -1);
	assert_string_equal(tls_error(p->tls), "Server closed the connection");
	assert_true(tls_closed_by_peer(p->tls));
	assert_int_equal(tls_write(p->tls, "x", 1), -1);
	assert_int_equal(errno, EPROTO);
}

TEST(a_cut_is_an_end_too, setup, teardown)
{
	struct tls_peer *p = *state;

	tls_peer_shake_hands(p);
	close(p->peer_fd);
	p->peer_fd = -1;
	assert_int_equal(tls_read(p->tls, take, NULL), -1);
	assert_string_equal(tls_error(p->tls), "Server closed the connection");
	assert_true(tls_closed_by_peer(p->tls));
}

TEST(a_broken_record, setup, teardown)
{
	struct tls_peer *p = *state;

	tls_peer_shake_hands(p);
	assert_int_equal(write(p->peer_fd, "\x17\x03\x03\0\x20" "0123456789abcdef0123456789abcdef", 37), 37);
	assert_int_equal(tls_read(p->tls, take, NULL), -1);
	assert_non_null(strstr(tls_error(p->tls), "TLS failed: "));
	assert_false(tls_closed_by_peer(p->tls));
	assert_int_equal(got.len, 0);
}

TEST(a_lost_peer_raises_no_signal, setup, teardown)
{
	struct tls_peer *p = *state;
	ssize_t n;

	tls_peer_shake_hands(p);
	close(p->peer_fd);
	p->peer_fd = -1;
	n = tls_write(p->tls, "x", 1);
	assert_int_equal(n, -1);
	assert_int_equal(errno, EPROTO);
	assert_string_equal(tls_error(p->tls), "Server closed the connection");
	assert_true(tls_closed_by_peer(p->tls));
}

TEST(a_close_tells_the_peer, setup, teardown)
{
	struct tls_peer *p = *state;

	tls_peer_shake_hands(p);
	tls_close(p->tls);
	p->tls = NULL;
	assert_true(tls_peer_was_told(p));
}

/* Nothing may wait for a peer that reads nothing. */
TEST(a_close_does_not_wait, setup, teardown)
{
	struct tls_peer *p = *state;
	char *text = alloc_zero(1, 1 << 20);

	tls_peer_shake_hands(p);
	while (tls_write(p->tls, text, 1 << 20) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	tls_close(p->tls);
	p->tls = NULL;
	free(text);
}

TEST(an_empty_host_is_refused, setup, teardown)
{
	struct tls_peer *p = *state;
	const char *why = NULL;

	assert_null(tls_open(p->context, p->fd, "", &why));
	assert_non_null(why);
}

TEST(a_context_knows_what_it_holds, setup, teardown)
{
	const struct tls_peer *p = *state;
	const char *why;
	struct tls_context *a = tls_context_new(true, &why), *b = tls_context_new(true, &why), *c = tls_context_new(false, &why);

	assert_true(tls_context_equal(a, b) && tls_context_equal(NULL, NULL) && !tls_context_equal(a, NULL) && !tls_context_equal(a, c));
	assert_null(tls_context_trust(a, p->certificate, strlen(p->certificate)));
	assert_false(tls_context_equal(a, b));
	assert_null(tls_context_trust(b, p->certificate, strlen(p->certificate)));
	assert_true(tls_context_equal(a, b));
	assert_string_equal(tls_context_use_key(a, p->certificate, strlen(p->certificate)), "holds no private key in PEM (-----BEGIN PRIVATE KEY-----)");
	assert_string_equal(tls_context_trust(a, "x", 1), "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)");
	assert_string_equal(tls_context_trust(a, p->certificate, strlen(p->certificate) / 2), "holds a damaged certificate");
	assert_null(tls_context_use_certificate(b, p->certificate, strlen(p->certificate)));
	assert_null(tls_context_use_key(b, p->key, strlen(p->key)));
	assert_string_equal(tls_context_use_key(b, p->other_key, strlen(p->other_key)), "does not belong to the certificate");
	assert_non_null(strstr(tls_context_use_key(b, p->encrypted_key, strlen(p->encrypted_key)), "is encrypted"));
	tls_context_free(a);
	tls_context_free(b);
	tls_context_free(c);
}

/* The worker that sees OpenSSL fail for lack of memory could never connect again. */
TEST(openssl_without_memory_ends_the_process, setup, teardown)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		close(STDERR_FILENO);
		OPENSSL_malloc(SIZE_MAX / 2);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EX_OSERR);
}

UNIT_MAIN(NULL, NULL)
