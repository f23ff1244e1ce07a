/* The processes of a tree by their descent: which are targets, and which have to be followed to come upon those. */
#include <sys/ptrace.h>

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/crashpoints/descent.h"

#define TARGETS_MAX 32
#define PROCESSES_MAX 256
#define FOLLOW (PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

static struct target targets[TARGETS_MAX];
static int ntargets;
static struct process processes[PROCESSES_MAX];

void descent_add_target(const char *text)
{
	const char *colon = strchr(text, ':');
	struct target *t = &targets[ntargets++];

	if (ntargets > TARGETS_MAX || colon == NULL || colon - text >= DESCENT_SIZE)
		errx(64, "what target is %s?", text);
	memcpy(t->role, text, (size_t)(colon - text));
	t->when = strtol(colon + 1, NULL, 10);
}

struct process *descent_find(pid_t pid)
{
	for (int i = 0; i < PROCESSES_MAX; i++)
		if (processes[i].pid == pid)
			return &processes[i];
	return NULL;
}

struct process *descent_add(pid_t pid)
{
	struct process *p = descent_find(0);

	if (p == NULL)
		errx(1, "too many processes");
	*p = (struct process){ .pid = pid };
	return p;
}

static struct target *target_of(const char *role)
{
	for (int i = 0; i < ntargets; i++)
		if (strcmp(targets[i].role, role) == 0)
			return &targets[i];
	return NULL;
}

static bool is_forebear(const char *role)
{
	size_t len = strlen(role);

	for (int i = 0; i < ntargets; i++)
		if (strncmp(targets[i].role, role, len) == 0 && targets[i].role[len] == '.')
			return true;
	return false;
}

void descent_resume(const struct process *p, int sig)
{
	ptrace(p->counting && !p->target->spent ? PTRACE_SYSCALL : PTRACE_CONT, p->pid, 0, sig);
}

void descent_let_go(struct process *p)
{
	ptrace(PTRACE_DETACH, p->pid, 0, 0);
	p->pid = 0;
}

void descent_begin(struct process *p)
{
	p->target = target_of(p->role);
	if (p->target == NULL && !is_forebear(p->role)) {
		descent_let_go(p);
		return;
	}
	p->counting = p->target != NULL;
	ptrace(PTRACE_SETOPTIONS, p->pid, 0, DESCENT_WATCH | (is_forebear(p->role) ? FOLLOW : 0));
	descent_resume(p, 0);
}

void descent_born(struct process *parent)
{
	unsigned long pid = 0;
	struct process *p;
	bool known;

	ptrace(PTRACE_GETEVENTMSG, parent->pid, 0, &pid);
	p = descent_find((pid_t)pid);
	known = p != NULL;		/* its first stop came before this news */
	if (!known)
		p = descent_add((pid_t)pid);
	p->parent = parent->pid;
	if (snprintf(p->role, sizeof(p->role), "%s.%d", parent->role, ++parent->children) >= (int)sizeof(p->role))
		errx(1, "a descent too long");
	if (known && p->stopped)
		descent_begin(p);
}
