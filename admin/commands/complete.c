/*
 * Completes a command line for a shell. Commands and options come from their tables, queues from the
 * configuration and Redis. It prints nothing but candidates: errors are not reported, and Redis gets PATIENCE_S to
 * answer. Candidates that were found until then are printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/commands/complete.h"

#include "admin/cli/cli.h"
#include "admin/commands/commands.h"
#include "admin/top/top.h"
#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"

#define PATIENCE_S 1		/* for Redis: then SIGALRM ends the process, with what it has printed */

struct completion {
	struct admin a;		/* the options before the word: the address of Redis, and so on */
	char complaint[COMPLAINT_SIZE];
	const char *begun;	/* the beginning of the word to complete */
};

static void offer(const struct completion *c, const char *word, const char *what)
{
	if (strncmp(word, c->begun, strlen(c->begun)) == 0)
		printf("%s%s%s\n", word, what == NULL ? "" : "\t", what == NULL ? "" : what);
}

static void offer_all(const struct completion *c, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		offer(c, words[i], NULL);
}

/* ---- candidates from Redis ---- */

static void offer_queues(struct completion *c)
{
	char **names;
	size_t n;

	if (admin_load(&c->a) == -1)
		return;
	for (size_t i = 0; i < c->a.conf->nqueues; i++)
		offer(c, c->a.conf->queues[i]->name, NULL);
	fflush(stdout);
	alarm(PATIENCE_S);
	connection_open(&c->a);
	if (c->a.redis.state != REDIS_READY || lookup_names(&c->a, &names, &n) == -1)
		return;
	for (size_t i = 0; i < n; i++)
		if (conf_queue_find(c->a.conf, names[i]) == NULL &&
		    identifier_is(IDENTIFIER_NAME, names[i], strlen(names[i])))
			offer(c, names[i], NULL);
	lookup_names_free(names, n);
}

static void offer_schedules(struct completion *c)
{
	if (admin_load(&c->a) == -1)
		return;
	for (size_t i = 0; i < c->a.conf->nschedules; i++)
		offer(c, c->a.conf->schedules[i]->name, NULL);
}

/* ---- operands ---- */

/* Offers "dlq" once, without its second words, which come when "dlq" is complete. */
static void offer_commands(const struct completion *c, const char *first)
{
	const struct command_table *all = c->a.commands;
	char last[32] = "";

	for (size_t i = 0; i < all->n; i++) {
		const struct command *command = &all->all[i];
		const char *space = strchr(command->name, ' ');
		size_t len = space == NULL ? strlen(command->name) : (size_t)(space - command->name);
		char word[32];

		snprintf(word, sizeof(word), "%.*s", (int)len, command->name);
		if (first != NULL && space != NULL && strcmp(word, first) == 0)
			offer(c, space + 1, command->summary);
		else if (first == NULL && strcmp(word, last) != 0)
			offer(c, word, space == NULL ? command->summary : NULL);
		memcpy(last, word, sizeof(last));
	}
}

/* Copies the n-th word of "QUEUE [MESSAGE]" without its brackets. If "..." ends the line, the last word repeats. */
static void operand_name(const char *arguments, size_t n, char *out, size_t size)
{
	size_t len = 0;

	for (const char *p = arguments; *p != '\0'; p += len) {
		p += strspn(p, " []");
		len = strcspn(p, " []|");
		if (len == 0 || strncmp(p, "...", len) == 0)
			return;
		snprintf(out, size, "%.*s", (int)len, p);
		len = strcspn(p, " ]");
		if (n-- == 0)
			return;
	}
	if (strstr(arguments, "...") == NULL)
		*out = '\0';
}

static void offer_operand(struct completion *c, const struct command *command)
{
	static const char *const lists[] = { "ingress", "transit", "escape", "delayed" },
	    *const shells[] = { "bash", "fish", "zsh" };
	char name[32] = "";

	operand_name(command->arguments, c->a.noperands, name, sizeof(name));
	if (strcmp(name, "QUEUE") == 0)
		offer_queues(c);
	else if (strcmp(name, "SCHEDULE") == 0)
		offer_schedules(c);
	else if (strcmp(name, "TYPE") == 0)
		offer_all(c, lists, nitems(lists));
	else if (strcmp(name, "SHELL") == 0)
		offer_all(c, shells, nitems(shells));
	else if (strcmp(name, "DIR") == 0)
		puts(":files");
	else if (strcmp(name, "COMMAND") == 0) {
		offer_commands(c, NULL);
		offer(c, COMMAND_HELP_OPTIONS, "options of every command");
	}
}

/* ---- options ---- */

static void offer_options(const struct completion *c, uint64_t bits)
{
	for (size_t i = 0; i < option_specs_count; i++) {
		const struct option_spec *s = &option_specs[i];
		char word[40];

		snprintf(word, sizeof(word), "--%s", s->name);
		if (s->bit == 0 || (s->bit & bits) != 0)
			offer(c, word, s->summary);
	}
}

/* Returns the option that word names, if its value is the next word; else NULL. */
static const struct option_spec *awaits_value(const char *word)
{
	for (size_t i = 0; i < option_specs_count; i++) {
		const struct option_spec *s = &option_specs[i];

		if (s->argument != NULL && s->kind != OPTION_MAY_HAVE_NUMBER &&
		    ((strncmp(word, "--", 2) == 0 && strcmp(word + 2, s->name) == 0) ||
		    (word[0] == '-' && word[1] == s->letter && word[2] == '\0')))
			return s;
	}
	return NULL;
}

static void offer_value(const struct completion *c, const struct option_spec *s)
{
	static const char *const sources[] = { "ingress", "escape", "delayed" };

	if (strcmp(s->argument, "FILE") == 0)
		puts(":files");
	else if (s->kind == OPTION_IS_COLOUR)
		offer_all(c, colour_choices, COLOUR_CHOICES);
	else if (s->bit == OPTION_CLASS)
		for (size_t i = 0; i < DEAD_LETTER_CLASSES; i++)
			offer(c, dead_letter_classes[i].name, NULL);
	else if (s->bit == OPTION_FROM)
		offer_all(c, sources, nitems(sources));
	else if (s->bit == OPTION_LANG)
		for (size_t i = 0; init_template_language(i) != NULL; i++)
			offer(c, init_template_language(i), NULL);
	else if (s->bit == OPTION_SORT)
		for (int i = 0; i < TOP_SORTS; i++)
			offer(c, top_sort_keys[i].name, top_sort_keys[i].summary);
}

/* ---- the command line ---- */

static void complete_word(struct completion *c)
{
	struct admin *a = &c->a;
	bool pair = a->noperands == 1 && command_is_group(a, a->operands[0]);
	const struct command *command = a->noperands == 0 || pair ? NULL : command_find(a);

	if (c->begun[0] == '-')
		offer_options(c, command == NULL ? 0 : command->options);
	else if (command != NULL) {
		if (a->noperands == 0)
			offer_commands(c, command->name);	/* "schedule run" */
		offer_operand(c, command);
	}
	else if (a->noperands <= 1)
		offer_commands(c, a->noperands == 0 ? NULL : a->operands[0]);
}

void complete_words(const struct command_table *all, char *const *words, size_t n)
{
	struct completion c = { .a = { .commands = all, .complaint = c.complaint, .served = true },
	    .begun = n == 0 ? "" : words[n - 1] };
	char **argv = alloc_zero(n + 2, sizeof(*argv));
	const struct option_spec *open = n < 2 ? NULL : awaits_value(words[n - 2]);
	int argc = n == 0 ? 1 : (int)n;		/* without the word that is completed */

	argv[0] = (char *)(uintptr_t)"quredis";
	for (size_t i = 0; i + 1 < n; i++)
		argv[i + 1] = words[i];
	if (freopen("/dev/null", "w", stderr) == NULL)
		goto out;
	if (open != NULL) {
		offer_value(&c, open);
	} else if (options_parse(&c.a.options, argc, argv) == 0) {
		admin_choose_conf(&c.a);
		c.a.operands = c.a.options.operands;
		c.a.noperands = c.a.options.noperands;
		complete_word(&c);
	}
	admin_close(&c.a);
out:
	free(argv);
}
