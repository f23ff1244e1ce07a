#ifndef TESTS_UNIT_SUPERVISOR_MASTER_FIXTURE_H
#define TESTS_UNIT_SUPERVISOR_MASTER_FIXTURE_H

#include "common/board/child.h"
#include "supervisor/master.h"

/*
 * A master without a loop and without children: time is a parameter, fork() gives numbers that no process has, and signals and
 * events of the log are only noted. A test program that links this file needs
 *	ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write
 */
#define MASTER_PID 5000000	/* the first child's; above what Linux gives */

/* The configuration of each test, unless it loads another. */
#define MASTER_CONF \
	"supervisor = { node = \"n\"; }; queues = ( { name = \"mail\"; handler = [\"/bin/true\"]; workers = 2; }, " \
	"{ name = \"later\"; handler = [\"/bin/true\"]; workers = 1; } );"
enum { MAIL, LATER };		/* places of its queues */

extern struct master m;

int master_setup(void **state);		/* queues of MASTER_CONF, no process */
int master_teardown(void **state);

/* Configurations belong to the fixture until the end of the test. */
struct conf *master_load(const char *text);
void master_write_conf(const char *text);	/* the file that a reload reads */

/* What staffing.c does: the process is forked and counted. Returns its slot. */
int master_add_worker(int queue, int index, int64_t now_ms);
int master_add_sweeper(unsigned epoch, int64_t now_ms);
int master_add_keeper(int64_t now_ms);
void master_end_worker(int slot, bool died, int64_t now_ms);
int master_count(enum process_kind kind, enum process_state state);

/* ---- forks ---- */

extern struct master_forks {
	size_t n;			/* that succeeded */
	int error;			/* errno of the next ones; 0: they succeed */
	size_t failed;
	void (*child)(const struct child *child);	/* not NULL: the next ones are real, and the child runs this */
	pid_t pid;			/* of the last one */
} master_forks;

/* ---- signals ---- */

size_t master_signals(pid_t pid, int sig);	/* sent to it; sig 0: of any number, pid 0: to anybody */
pid_t master_signalled(size_t i);		/* the receiver of the first signal, of the second, … */
void master_forget_signals(void);

/* ---- events ---- */

/* The last such event, as "LEVEL key=value …", LEVEL being debug, info, warning or error; NULL: there was none. */
const char *master_logged(const char *event);
size_t master_count_events(const char *event);
void master_forget_events(void);
#define assert_logged(event, text)                                                                 \
	do {                                                                                       \
		assert_non_null(master_logged(event));                                             \
		if (strstr(master_logged(event), (text)) == NULL)                                  \
			fail_msg("%s: %s, without: %s", (event), master_logged(event), (text));    \
	} while (0)

bool master_aborts(void (*f)(void));	/* as a broken rule does */

#endif
