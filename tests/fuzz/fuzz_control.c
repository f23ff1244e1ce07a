/* links: tests/fuzz/input.c tests/fuzz/fake_time.c tests/fuzz/conf_text.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf -Wl,--wrap=conf_load -Wl,--wrap=conf_free -Wl,--wrap=kill -Wl,--wrap=fork */
/*
 * The control socket: requests of any bytes, in any pieces, to a master in some state. Each line is answered
 * by one line, an object that says whether it was done; too long a line by the last one; and no process is
 * signalled but the master's own.
 *
 * Input: the size of the pieces, the master's state, which configuration a reload finds; then what is sent.
 */
#include <sys/socket.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "tests/fuzz/input.h"

#include "common/base/alloc.h"
#include "common/base/buffer.h"
#include "common/base/clock.h"
#include "common/log/log.h"
#include "common/base/nitems.h"
#include "supervisor/master.h"
#include "supervisor/reload.h"
#include "supervisor/request.h"
#include "tests/fuzz/conf_text.h"
#include "tests/fuzz/fake_time.h"
#include "sweeper/sweeper.h"

#define PID 5000000		/* above what Linux gives */
#define USED 512		/* places of processes and queues that one input may come to */
#define ROUNDS_MAX 100000

static const char *const texts[] = {
	"supervisor = { node = \"n\"; }; queues = ( { name = \"mail\"; handler = [\"/bin/true\"]; workers = 2; }, { "
	    "name = \"later\"; handler = [\"/bin/true\"]; } );",
	"supervisor = { node = \"n\"; }; queues = ( { name = \"mail\"; handler = [\"/bin/false\"]; workers = 3; }, { "
	    "name = \"new\"; handler = [\"/bin/true\"]; } );",
	"supervisor = { node = \"other\"; }; queues = ();",
	"queues = ( { nam = \"mail\"; } );",
	"supervisor = { node = \"n\"; }; redis = { url = \"redis://other\"; }; queues = ( { name = \"mail\"; handler = [\"/bin/true\"]; ingress = \"i\"; } );",
};

static char *paths[nitems(texts)];
static size_t reload_finds;
static struct conf *first;	/* what every run begins with */
static struct master m;		/* too large for a stack */
static struct scoreboard *board;

struct conf *__real_conf_load(const char *path, unsigned flags, struct conf_report *report);
struct conf *__wrap_conf_load(const char *path, unsigned flags, struct conf_report *report);
void __real_conf_free(struct conf *conf);
void __wrap_conf_free(struct conf *conf);
int __wrap_kill(pid_t pid, int sig);
pid_t __wrap_fork(void);

struct conf *__wrap_conf_load(const char *path, unsigned flags, struct conf_report *report)
{
	if (first == NULL)
		return __real_conf_load(path, flags, report);
	return __real_conf_load(paths[reload_finds], flags | CONF_LENIENT_HANDLERS, report);
}

void __wrap_conf_free(struct conf *conf)
{
	if (conf != first)
		__real_conf_free(conf);
}

int __wrap_kill(pid_t pid, int sig)
{
	FUZZ_ASSERT(pid >= PID && pid < PID + 10 && sig == SIGTERM);
	return 0;
}

pid_t __wrap_fork(void)
{
	abort();	/* a request forks nothing by itself */
}

void worker_run(const struct child *child)
{
	(void)child;
	abort();
}

void sweeper_run(const struct child *child)
{
	(void)child;
	abort();
}

void sweeper_search(const struct child *child, int fd)
{
	(void)child;
	(void)fd;
	abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < nitems(texts); i++)
		paths[i] = conf_text_path(texts[i]);
	first = conf_text_load(texts[0]);
	FUZZ_ASSERT((board = scoreboard_new()) != NULL);
	FUZZ_ASSERT(log_open(FUZZ_LOG, LOG_FORMAT_JSON, LOG_LEVEL_DEBUG) == 0);
	return 0;
}

/* ---- the master ---- */

static void add_process(enum process_kind kind, int queue, bool leaving)
{
	struct process_role role = { .kind = kind, .queue = queue, .socket = -1 };
	int slot = processes_start(&m.processes, &role, ORDER_RUN, 0);

	processes_forked(&m.processes, slot, PID + slot);
	if (kind == PROCESS_SWEEPER)
		return;
	strcpy(m.processes.items[slot].role.queue_name, m.queues.items[queue].name);
	queues_worker_forked(&m.queues, queue, 0);
	if (leaving)
		queues_dismiss_surplus(&m.queues, queue, 0);
}

static void begin(uint8_t state)
{
	memset(m.processes.items, 0, sizeof(m.processes.items[0]) * USED);
	memset(m.queues.items, 0, sizeof(m.queues.items[0]) * USED);
	memset((void *)board->master.orders, 0, sizeof(board->master.orders[0]) * USED);
	m.queues.n = m.deaths.n = 0;
	m.stop = (struct stop){0};
	m.staffing = (struct staffing){0};
	m.config = (struct configuration){ .path = alloc_string((state & 0x80) != 0 ? "/etc/\xff" : "/etc/quredis.conf"), .conf = first };
	m.board = board;
	master_connect(&m);
	m.spawner.boot = 0xb0;
	m.signal_fd = m.notify.fd = -1;
	control_init(&m.control, request_answer, &m);
	reload_first(&m);
	add_process(PROCESS_SWEEPER, -1, false);
	add_process(PROCESS_WORKER, 0, (state & 2) != 0);
	add_process(PROCESS_WORKER, 0, (state & 4) != 0);
	add_process(PROCESS_WORKER, 1, (state & 8) != 0);
	m.queues.quiet = (state & 1) != 0;
	if ((state & 0x40) != 0)
		m.stop.phase = STOP_FINISHING;
}

static void finish(void)
{
	FUZZ_ASSERT(m.queues.n < USED);
	control_close_in_child(&m.control);
	reload_free(&m.config);
}

/* ---- the client ---- */

/* What is there to read; false: the other end is closed. */
static bool receive(int fd, struct buffer *answers)
{
	char data[16384];
	ssize_t n;

	while ((n = recv(fd, data, sizeof(data), MSG_DONTWAIT)) > 0)
		buffer_append(answers, data, (size_t)n);
	return n == -1 && errno == EAGAIN;
}

static void step(void)
{
	struct pollfd fds[CONTROL_POLLFDS];
	size_t n = control_pollfds(&m.control, fds, clock_monotonic_ms());

	FUZZ_ASSERT(n <= nitems(fds));
	poll(fds, n, 0);
	control_step(&m.control, fds, n, clock_monotonic_ms());
}

/* Until the master has taken all of it and answered; false: it has closed. */
static bool send_piece(int fd, const char *data, size_t len, struct buffer *answers)
{
	for (int i = 0; len > 0; i++) {
		ssize_t n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		FUZZ_ASSERT(i < ROUNDS_MAX);
		if (n == -1 && errno != EAGAIN)
			return false;
		data += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
		step();
		if (!receive(fd, answers))
			return false;
	}
	for (int i = 0; i < 4 || m.control.clients[0].out != NULL; i++) {
		FUZZ_ASSERT(i < ROUNDS_MAX);
		step();
		if (!receive(fd, answers))
			return false;
	}
	return true;
}

static void check_answer(const char *line, size_t len, bool *too_long)
{
	json_t *o = json_loadb(line, len, 0, NULL);
	const json_t *ok = json_object_get(o, "ok");
	const char *error = json_string_value(json_object_get(o, "error"));

	FUZZ_ASSERT(json_is_object(o) && json_is_boolean(ok));
	FUZZ_ASSERT(json_is_true(ok) == (error == NULL));
	*too_long = error != NULL && strcmp(error, "a request is at most 4095 bytes") == 0;
	json_decref(o);
}

static size_t check_answers(const struct buffer *answers)
{
	const char *at = answers->data, *end = at + answers->len;
	bool too_long = false;
	size_t n = 0;

	for (; at < end; n++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		FUZZ_ASSERT(newline != NULL && !too_long);
		check_answer(at, (size_t)(newline - at), &too_long);
		at = newline + 1;
	}
	return n - too_long;
}

static size_t count_lines(const char *data, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += data[i] == '\n';
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	size_t piece = input_byte(&in), sent = 0, answered;
	struct buffer answers = {0};
	bool is_open = true;
	int ends[2];

	fake_time_begin();
	begin(input_byte(&in));
	reload_finds = input_below(&in, nitems(texts));
	if (piece == 0)
		piece = 8192;
	FUZZ_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	m.control.clients[0] = (struct control_client){ .fd = ends[0], .moved_ms = clock_monotonic_ms() };
	for (; is_open && sent < in.left; sent += piece)
		is_open = send_piece(ends[1], (const char *)in.at + sent, in.left - sent < piece ? in.left - sent : piece, &answers);
	answered = check_answers(&answers);
	FUZZ_ASSERT(!is_open || answered == count_lines((const char *)in.at, in.left));
	FUZZ_ASSERT(is_open || m.control.clients[0].fd == -1);
	finish();
	close(ends[1]);
	buffer_free(&answers);
	return 0;
}
