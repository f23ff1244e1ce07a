/*
 * The terminal of quredis top: draws on the alternate screen in plain ANSI, and reads keys without Enter. It restores
 * the terminal however the process ends, except by SIGKILL. Handlers of ordinary signals only note the signal. Handlers
 * of crashes write the restoring sequence and nothing else.
 */
#include <sys/ioctl.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "admin/top/top.h"

#include "common/base/base.h"

#define ENTER "\033[?1049h\033[?25l\033[?7l"	/* alternate screen, no cursor, long lines are cut */
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_REST "\033[J"
/* the rest of an escape sequence follows within this time, or ESC is the key Escape */
#define ESCAPE_MS 200

static struct termios before;
static bool has_keys;			/* `before` has the settings of standard input */
static struct top_keys keys;
static bool keys_are_late;		/* nothing came for ESCAPE_MS */
static volatile sig_atomic_t entered, ends_by, resized, stopped;

/* Restores the terminal. A signal handler calls it: async-signal-safe functions only. */
static void give_back(void)
{
	if (!entered)
		return;
	entered = 0;
	if (write(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1) == -1)
		return;
	if (has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void take_terminal(void)
{
	struct termios raw = before;

	raw.c_lflag &= (tcflag_t)~(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	entered = 1;
	if (has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(ENTER, stdout);
	fflush(stdout);
}

static void on_signal(int sig)
{
	if (sig == SIGWINCH)
		resized = 1;
	else if (sig == SIGTSTP)
		stopped = 1;
	else if (sig != SIGCONT)
		ends_by = sig;
}

static void on_crash(int sig)
{
	give_back();
	signal(sig, SIG_DFL);
	raise(sig);
}

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2 };
static const int others[] = { SIGWINCH, SIGTSTP, SIGCONT };
static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

/* The signals are blocked except during a wait, so that no page is written in part. */
static void catch_all(const int *signals, size_t n, sigset_t *blocked)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < n; i++) {
		sigaction(signals[i], &action, NULL);
		sigaddset(blocked, signals[i]);
	}
}

void top_screen_enter(void)
{
	struct sigaction crash = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND };
	sigset_t blocked;

	has_keys = tcgetattr(STDIN_FILENO, &before) == 0;
	sigemptyset(&blocked);
	sigemptyset(&crash.sa_mask);
	catch_all(ending, nitems(ending), &blocked);
	catch_all(others, nitems(others), &blocked);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	for (size_t i = 0; i < nitems(crashes); i++)
		sigaction(crashes[i], &crash, NULL);
	atexit(give_back);
	take_terminal();
}

void top_screen_leave(void)
{
	fflush(stdout);
	give_back();
	top_keys_free(&keys);
}

void top_screen_die(void)
{
	sigset_t one;

	if (ends_by == 0)
		return;
	signal(ends_by, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, ends_by);
	raise(ends_by);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

/* ---- drawing ---- */

struct top_size top_screen_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == -1 || size.ws_col == 0 || size.ws_row == 0)
		return (struct top_size){ .rows = 24, .columns = 80 };
	return (struct top_size){ .rows = size.ws_row, .columns = size.ws_col };
}

/* Writes the beginning of a line that fits. Escape sequences take no room, and all of them are written: the last one
 * ends a colour. */
static void draw_line(const char *line, size_t len, size_t columns)
{
	char *copy = alloc_copy(line, len), *rest = copy;

	while (*rest != '\0') {
		size_t plain = strcspn(rest, "\033"), sequence = strcspn(rest + plain, "m") + 1, fit;
		char kept = rest[plain];

		rest[plain] = '\0';
		fit = visible_fit(rest, columns);
		fwrite(rest, 1, fit, stdout);
		columns = fit < plain ? 0 : columns - visible_columns(rest);
		rest[plain] = kept;
		rest += plain;
		if (kept == '\0')
			break;
		sequence = strnlen(rest, sequence);
		fwrite(rest, 1, sequence, stdout);
		rest += sequence;
	}
	free(copy);
}

void top_screen_draw(const char *text, const char *note)
{
	struct top_size size = top_screen_size();
	int rows = (int)size.rows - (note != NULL ? 1 : 0), row = 0;

	fputs(HOME, stdout);
	for (const char *line = text; *line != '\0' && row < rows; row++) {
		size_t len = strcspn(line, "\n");

		if (row > 0)
			fputs("\r\n", stdout);
		draw_line(line, len, size.columns);
		fputs(CLEAR_LINE, stdout);
		line += len + (line[len] == '\n');
	}
	fputs(row < rows ? CLEAR_REST : "", stdout);
	if (note != NULL) {
		printf("\033[%zu;1H", size.rows);
		draw_line(note, strlen(note), size.columns);
		fputs(CLEAR_LINE, stdout);
	}
	fflush(stdout);
}

/* ---- waiting ---- */

/* Stops the process as an uncaught signal would, and takes the terminal back when it continues. */
static void stop_process(void)
{
	sigset_t one;

	stopped = 0;
	give_back();
	signal(SIGTSTP, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
	signal(SIGTSTP, on_signal);
	take_terminal();
}

static enum top_event read_keys(void)
{
	char bytes[256];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n == -1 && errno == EINTR)
		return TOP_NOTHING;
	if (n <= 0)
		return TOP_QUIT;		/* end of input or an error: the terminal is closed */
	top_keys_add(&keys, bytes, (size_t)n);
	keys_are_late = false;
	return TOP_PRESSED;
}

int top_screen_key(void)
{
	int key = top_keys_next(&keys, keys_are_late);

	keys_are_late = false;
	return key;
}

enum top_event top_screen_wait(const int fds[2], int64_t timeout_ms)
{
	struct pollfd p[3] = { { .fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = fds[0], .events = POLLIN },
		{ .fd = fds[1], .events = POLLIN } };
	bool incomplete = top_keys_is_incomplete(&keys);
	int64_t wait_ms = incomplete && timeout_ms > ESCAPE_MS ? ESCAPE_MS : timeout_ms;
	struct timespec ts = { .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };
	sigset_t open;
	int ready;

	sigemptyset(&open);
	ready = ppoll(p, nitems(p), &ts, &open);
	if (ends_by != 0)
		return TOP_QUIT;
	if (stopped)
		stop_process();
	if (resized || ready == -1) {
		resized = 0;
		return TOP_REDRAW;
	}
	if (p[0].revents != 0)
		return read_keys();
	if (ready == 0 && incomplete) {
		keys_are_late = true;
		return TOP_PRESSED;
	}
	return ready > 0 ? TOP_READABLE : TOP_NOTHING;
}
