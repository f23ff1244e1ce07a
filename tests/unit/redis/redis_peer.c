/* The server that a test plays itself. */
#include <sys/socket.h>
#include <sys/un.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/redis/redis_peer.h"

#include "common/base/alloc.h"

int redis_peer_setup(void **state)
{
	struct redis_peer *s = alloc_zero(1, sizeof(*s));
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char error[128];

	strcpy(s->dir, "/tmp/qu.XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(s->url, sizeof(s->url), "unix://%s/s", s->dir);
	assert_int_equal(redis_target_parse(&s->target, &(struct redis_options){ .url = s->url }, error, sizeof(error)), 0);
	strcpy(sa.sun_path, s->target.unix_path);
	s->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listening, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(s->listening, 1), 0);
	redis_init(&s->r, &s->target, NULL);
	assert_int_equal(redis_open(&s->r, 0), 0);
	s->fd = accept(s->listening, NULL, NULL);
	assert_int_not_equal(s->fd, -1);
	*state = s;
	return 0;
}

int redis_peer_teardown(void **state)
{
	struct redis_peer *s = *state;

	redis_close(&s->r, NULL);
	close(s->fd);
	close(s->listening);
	unlink(s->target.unix_path);
	rmdir(s->dir);
	redis_target_free(&s->target);
	free(s);
	return 0;
}

void redis_peer_say(const struct redis_peer *s, const char *text)
{
	assert_int_equal(write(s->fd, text, strlen(text)), (int)strlen(text));
}

void redis_peer_greet(struct redis_peer *s)
{
	redis_peer_say(s, GREETINGS);
	assert_int_equal(redis_pump(&s->r, 0), 0);
	assert_int_equal(s->r.state, REDIS_READY);
}
