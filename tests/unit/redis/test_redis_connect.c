/* redis_connect() to servers on 127.0.0.1 that answer an opening with a text of the test, each in a thread of its own. */
#include <sys/socket.h>

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/redis/redis.h"
#include "tests/unit/unit.h"

#define MASTER ":1\r\n*1\r\n$6\r\nmaster\r\n"
#define SERVERS 3

static struct server {
	int listening, port;
	char says[512];
	_Atomic int asked;		/* connections */
	int fds[8];			/* of them; they stay open */
	pthread_t thread;
} servers[SERVERS];

static struct redis_target target;
static struct redis r;

static void *serve(void *arg)
{
	struct server *s = arg;
	int fd;

	while ((fd = accept(s->listening, NULL, NULL)) != -1 && s->asked < (int)nitems(s->fds)) {
		s->fds[s->asked] = fd;
		atomic_fetch_add(&s->asked, 1);
		send(fd, s->says, strlen(s->says), MSG_NOSIGNAL);
	}
	return NULL;
}

static void start(struct server *s)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);

	*s = (struct server){ .listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .says = MASTER };
	assert_int_equal(bind(s->listening, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(s->listening, 8), 0);
	assert_int_equal(getsockname(s->listening, (struct sockaddr *)&sa, &len), 0);
	s->port = ntohs(sa.sin_port);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static int setup(void **state)
{
	(void)state;
	for (int i = 0; i < SERVERS; i++)
		start(&servers[i]);
	return 0;
}

static int asked(int server)
{
	return atomic_load(&servers[server].asked);
}

static int teardown(void **state)
{
	(void)state;
	redis_close(&r, NULL);
	redis_target_free(&target);
	for (int i = 0; i < SERVERS; i++) {
		shutdown(servers[i].listening, SHUT_RDWR);
		pthread_join(servers[i].thread, NULL);
		close(servers[i].listening);
		for (int n = 0; n < asked(i); n++)
			close(servers[i].fds[n]);
	}
	return 0;
}

static void point_to(const char *url)
{
	char error[256];

	redis_close(&r, NULL);
	redis_target_free(&target);		/* of an earlier connection of the test */
	assert_int_equal(redis_target_parse(&target, &(struct redis_options){ .url = url }, error, sizeof(error)), 0);
	redis_init(&r, &target, NULL);
}

/* With the first n servers in redis.url. */
static void point_to_first(int n)
{
	char url[128] = "redis://";

	for (int i = 0; i < n; i++)
		snprintf(url + strlen(url), sizeof(url) - strlen(url), "%s127.0.0.1:%d", i > 0 ? "," : "", servers[i].port);
	point_to(url);
}

static void say_moved(int from, int to)
{
	snprintf(servers[from].says, sizeof(servers[from].says), ":1\r\n-MOVED 7 127.0.0.1:%d\r\n", servers[to].port);
}

static void assert_why(const char *words)
{
	if (strstr(r.error, words) == NULL)
		fail_msg("%s", r.error);
}

/* ---- nodes that name another node ---- */

TEST(two_nodes_in_a_row_name_another_one, setup, teardown)
{
	say_moved(0, 1);
	say_moved(1, 2);
	point_to_first(1);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), 0);
	assert_int_equal(asked(0), 1);
	assert_int_equal(asked(1), 1);
	assert_int_equal(asked(2), 1);
}

TEST(two_nodes_that_name_each_other, setup, teardown)
{
	say_moved(0, 1);
	say_moved(1, 0);
	point_to_first(1);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), -1);
	assert_why("MOVED 7 127.0.0.1");
	assert_in_range(asked(0) + asked(1), 2, 5);
}

/* The node that was named does not answer: the first one is asked again, once for each of its addresses. */
TEST(a_node_that_is_gone, setup, teardown)
{
	snprintf(servers[0].says, sizeof(servers[0].says), ":1\r\n-MOVED 7 127.0.0.1:1\r\n");
	point_to_first(1);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), -1);
	assert_why(" at 127.0.0.1:1: Connection refused");
	say_moved(0, 1);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), 0);
	assert_int_equal(asked(1), 1);
}

static void greet(struct redis *opening)
{
	redis_appendf(opening, "SCRIPT LOAD x");
	redis_appendf(opening, "EVALSHA x 1 k");
}

TEST(a_replica_of_a_cluster_names_its_master, setup, teardown)
{
	snprintf(servers[0].says, sizeof(servers[0].says), ":1\r\n*1\r\n$5\r\nslave\r\n$1\r\nx\r\n-MOVED 7 127.0.0.1:%d\r\n", servers[1].port);
	strcpy(servers[1].says, MASTER "$1\r\nx\r\n$0\r\n\r\n");
	point_to_first(1);
	r.greet = greet;
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), 0);
	assert_int_equal(asked(1), 1);
}

/* Whatever it says to the other commands. */
TEST(another_replica_is_refused, setup, teardown)
{
	static const char *const says[] = { "$0\r\n\r\n", "-READONLY You can't write against a read only replica.\r\n", "-NOSCRIPT\r\n", "-NOAUTH\r\n" };

	point_to_first(1);
	r.greet = greet;
	for (size_t i = 0; i < nitems(says); i++) {
		snprintf(servers[0].says, sizeof(servers[0].says), ":1\r\n*1\r\n$5\r\nslave\r\n$1\r\nx\r\n%s", says[i]);
		assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), -1);
		assert_why("the server is a replica, not a master");
		assert_int_equal(r.error_class, REDIS_ERROR_TRANSIENT);
	}
}

/* ---- several addresses ---- */

TEST(the_next_address_may_be_healthy, setup, teardown)
{
	static const char *const errors[] = { "-LOADING Redis is loading\r\n", "-ERR max number of clients reached\r\n", "-DENIED protected mode\r\n",
		":1\r\n*1\r\n$5\r\nslave\r\n", "HTTP/1.1 400 Bad Request\r\n" };

	point_to_first(2);
	for (size_t i = 0; i < nitems(errors); i++) {
		redis_close(&r, NULL);
		redis_init(&r, &target, NULL);
		strcpy(servers[0].says, errors[i]);
		assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), 0);
		assert_int_equal(asked(0), i + 1);
		assert_int_equal(asked(1), i + 1);
	}
}

TEST(a_refused_password_is_the_same_everywhere, setup, teardown)
{
	strcpy(servers[0].says, "-NOAUTH Authentication required.\r\n");
	point_to_first(2);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), -1);
	assert_int_equal(r.error_class, REDIS_ERROR_PERMISSION);
	assert_int_equal(asked(1), 0);
}

/* It is the first answer, before the server closes the connection. An "ERR" there may also mean that the command is not known, which is no reason. */
TEST(a_full_server_says_so, setup, teardown)
{
	strcpy(servers[0].says, "-ERR max number of clients reached\r\n");
	point_to_first(1);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), -1);
	assert_why("ERR max number of clients reached");
	strcpy(servers[0].says, "-ERR unknown command 'CLIENT'\r\n-NOPERM this user has no permissions to run 'role'\r\n$0\r\n\r\n");
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), 0);
}

TEST(a_sentinel_is_no_redis, setup, teardown)
{
	strcpy(servers[0].says, ":1\r\n*2\r\n$8\r\nsentinel\r\n*1\r\n$4\r\nmail\r\n");
	point_to_first(1);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), -1);
	assert_why("the server is a Sentinel: name it in redis.sentinels");
}

TEST(another_protocol_is_named, setup, teardown)
{
	static const struct { const char *says, *why; } others[] = {
		{ "HTTP/1.1 400 Bad Request\r\n\r\n",
		    ": this is not the port of Redis: it answers like a web server (HTTP)" },
		{ "<html>", ": this is not the port of Redis: it answers like a web server (HTML)" },
		{ "SSH-2.0-OpenSSH_9.2\r\n", ": this is not the port of Redis: it answers like an SSH server" },
		{ "220 mail ESMTP\r\n", ": this is not the port of Redis: it answers in another protocol" },
		{ "\x15\x03", ": the server answers with TLS, so redis.url must begin with rediss://" },
		{ ":1\r\nHTTP", "Protocol error, got \"H\"" },	/* a Redis that breaks its protocol */
	};

	point_to_first(1);
	for (size_t i = 0; i < nitems(others); i++) {
		strcpy(servers[0].says, others[i].says);
		assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), -1);
		assert_why(others[i].why);
	}
}

/* What is wrong follows the addresses, however long they are. */
TEST(long_addresses_do_not_hide_the_reason, setup, teardown)
{
	char url[1200] = "redis://";

	snprintf(url + 8, sizeof(url) - 8, "127.0.0.1:%d", servers[0].port);
	for (int i = 0; i < 20; i++)
		snprintf(url + strlen(url), sizeof(url) - strlen(url), ",redis-%d.a-long-name-of-a-service.example", i);
	point_to(url);
	assert_int_equal(redis_open(&r, 0), 0);
	redis_fail(&r, "the reason", REDIS_ERROR_TRANSIENT);
	snprintf(url, sizeof(url), "... at 127.0.0.1:%d: the reason", servers[0].port);
	assert_why(url);
}

/* ---- a second connection to the same server ---- */

/* The first address works again meanwhile, and it names another node: neither matters. */
TEST(beside_goes_to_the_same_server, setup, teardown)
{
	struct redis second;

	strcpy(servers[0].says, "-LOADING\r\n");
	point_to_first(2);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), 0);
	strcpy(servers[0].says, MASTER);
	redis_init(&second, &target, NULL);
	assert_int_equal(redis_connect_beside(&second, &r, REDIS_TIMEOUT_MS, NULL), 0);
	assert_int_equal(asked(0), 1);
	assert_int_equal(asked(1), 2);
	redis_close(&second, NULL);
	redis_close(&r, NULL);
	assert_int_equal(redis_connect_beside(&second, &r, REDIS_TIMEOUT_MS, NULL), -1);
	assert_int_equal(asked(0), 1);
	assert_int_equal(redis_connect(&second, REDIS_TIMEOUT_MS, NULL), 0);		/* what it knew of the peer is forgotten */
	assert_int_equal(asked(1), 3);
	redis_close(&second, NULL);
}

static void loses_after_opening(bool resets)
{
	struct linger at_once = { .l_onoff = 1 };
	struct redis_reply reply;
	int n = servers[0].asked, fd;

	point_to_first(1);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), 0);
	assert_false(r.closed_by_peer);
	fd = servers[0].fds[n];
	if (resets) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		dup2(servers[0].listening, fd);		/* closes it; the number stays in use */
	} else {
		shutdown(fd, SHUT_RDWR);
	}
	assert_int_equal(redis_wait(&r, &reply, REDIS_TIMEOUT_MS, NULL), -1);
}

/* The connection judges by the error code of the close, not by the text of an error: a proxy chooses its own text. */
TEST(a_close_by_the_peer_is_known, setup, teardown)
{
	struct redis_reply reply;

	strcpy(servers[0].says, MASTER);
	loses_after_opening(false);
	assert_true(r.closed_by_peer);
	loses_after_opening(true);
	assert_true(r.closed_by_peer);
	strcpy(servers[0].says, "-NOAUTH Server closed the connection: Connection reset by peer, Broken pipe\r\n");
	point_to_first(1);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), -1);
	assert_why("Broken pipe");
	assert_false(r.closed_by_peer);
	strcpy(servers[0].says, MASTER);
	assert_int_equal(redis_connect(&r, REDIS_TIMEOUT_MS, NULL), 0);
	assert_int_equal(redis_wait(&r, &reply, 1, NULL), -1);
	assert_why("no answer in time");
	assert_false(r.closed_by_peer);
}

UNIT_MAIN(NULL, NULL)
