/*
 * Parses the command line with getopt_long(3), from the table in options_table.c. command.c checks whether the command
 * takes an option, and suggests those that were meant.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <jansson.h>

#include "admin/cli/options.h"

#include "admin/cli/moment.h"
#include "admin/cli/notice.h"
#include "admin/cli/visible.h"
#include "admin/cli/wrap.h"
#include "common/base/base.h"
#include "common/conf/conf.h"

#define WANTED_SIZE 80

const struct option_spec *option_of_bit(uint64_t bit)
{
	for (size_t i = 0; i < option_specs_count; i++)
		if (option_specs[i].bit == bit)
			return &option_specs[i];
	return NULL;
}

static const struct option_spec *option_of_letter(int letter)
{
	for (size_t i = 0; i < option_specs_count; i++)
		if (option_specs[i].letter == letter)
			return &option_specs[i];
	return NULL;
}

/* Describes the table to getopt. A leading "-" makes it return operands in their order, whatever POSIXLY_CORRECT
 * says. */
static void describe_table(struct buffer *letters, struct option longs[OPTIONS_MAX])
{
	buffer_format(letters, "-:");
	for (size_t i = 0; i < option_specs_count; i++) {
		const struct option_spec *s = &option_specs[i];

		int has = s->argument == NULL ? no_argument : s->kind == OPTION_MAY_HAVE_NUMBER ? optional_argument
		    : required_argument;

		longs[i] = (struct option){ s->name, has, NULL, s->letter };
		if (s->letter < 256)
			buffer_format(letters, "%c%s", s->letter, s->argument != NULL ? ":" : "");
	}
	longs[option_specs_count] = (struct option){0};
}

/* Describes the value of an option, with an example. */
static const char *wanted_of(const struct option_spec *s, char room[WANTED_SIZE])
{
	switch (s->kind) {
	case OPTION_MAY_HAVE_NUMBER:
	case OPTION_IS_NUMBER:
		snprintf(room, WANTED_SIZE,
		    s->max == INT64_MAX ? "a number from %" PRId64 " on" : "a number from %" PRId64 " to %" PRId64,
		    s->min, s->max);
		return room;
	case OPTION_IS_DURATION:
		return "a duration like 250ms, 30s, 5m, 1h30m or 7d";
	case OPTION_IS_COLOUR:
		return "auto, always or never";
	case OPTION_IS_STRING:
	case OPTION_IS_FLAG:
		break;
	}
	return s->wanted;
}

static int bad_value(const struct option_spec *s, const char *value)
{
	char room[WANTED_SIZE];

	notice_print("quredis: ", "--%s: %s is not %s", s->name, value, wanted_of(s, room));
	return -1;
}

static int no_value(const struct option_spec *s, const char *option)
{
	char room[WANTED_SIZE];

	notice_print("quredis: ", "option %s requires an argument: %s", option, wanted_of(s, room));
	return -1;
}

static int store_colour(enum colour_choice *field, const struct option_spec *s, const char *value)
{
	char *hint, *shown;

	for (int i = 0; i < COLOUR_CHOICES; i++)
		if (strcmp(colour_choices[i], value) == 0) {
			*field = (enum colour_choice)i;
			return 0;
		}
	shown = visible(value, strlen(value), 100);
	hint = notice_suggest(value, colour_choices, COLOUR_CHOICES, "");
	notice_print("quredis: ", "--%s: expected auto, always or never, not %s%s", s->name,
	    shown[0] == '\0' ? "an empty word" : shown, hint);
	free(hint);
	free(shown);
	return -1;
}

static int store(struct options *o, const struct option_spec *s, char *value)
{
	char *field = (char *)o + s->offset;
	const char *why = NULL;
	int64_t number;

	o->given |= s->bit;
	o->named[s - option_specs] = true;
	switch (s->kind) {
	case OPTION_IS_FLAG:
		*(bool *)field = true;
		return 0;
	case OPTION_IS_STRING:
		memcpy(field, &value, sizeof(value));
		return 0;
	case OPTION_IS_COLOUR:
		return store_colour((enum colour_choice *)(void *)field, s, value);
	case OPTION_MAY_HAVE_NUMBER:
	case OPTION_IS_NUMBER:
		number = value == NULL ? 0 : strtonum(value, s->min, s->max, &why);
		if (why != NULL)
			return bad_value(s, value);
		break;
	case OPTION_IS_DURATION:
		if (units_parse_duration(value, &number) == -1)
			return bad_value(s, value);
		break;
	}
	memcpy(field, &number, sizeof(number));
	return 0;
}

/* Only the command, which may stand behind it, knows which option was meant: options_parse() goes on. */
static int keep_unknown(struct options *o, const char *word, int letter)
{
	if (letter != 0 && letter < 256 && strncmp(word, "--", 2) != 0)
		snprintf(o->unknown, sizeof(o->unknown), "-%c", letter);
	else
		snprintf(o->unknown, sizeof(o->unknown), "%s", word);
	return 0;
}

static bool is_number(const char *word)
{
	return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0';
}

/* word: the one that getopt_long() was in */
static int parse_one(struct options *o, int letter, char **argv, const char *word)
{
	const struct option_spec *s;

	if (letter == 1) {
		o->operands[o->noperands++] = optarg;
		return 0;
	}
	o->last = word;
	o->before_last = o->noperands;
	if (letter == ':')
		return no_value(option_of_letter(optopt), argv[optind - 1]);
	s = letter == '?' ? NULL : option_of_letter(letter);
	if (s != NULL && s->bit == OPTION_CANARY && optarg == NULL && argv[optind] != NULL && is_number(argv[optind]))
		return store(o, s, argv[optind++]);	/* it goes with --all, so no id follows */
	if (s != NULL && s->kind == OPTION_MAY_HAVE_NUMBER && optarg == NULL && argv[optind] != NULL &&
	    is_number(argv[optind])) {
		notice_print("quredis: ", "--%s %s: write --%s=%s; a number that is an operand must not follow --%s",
		    s->name, argv[optind], s->name, argv[optind], s->name);
		return -1;
	}
	return s == NULL ? keep_unknown(o, word, optopt) : store(o, s, optarg);
}

struct options options_none(void)
{
	return (struct options){ .count = -1, .max_failures = -1, .web_port = -1, .search = -1, .delay_ms = -1,
		.ttl_ms = -1, .wait = -1, .wait_timeout_ms = -1, .for_ms = -1, .next = -1 };
}

int options_parse(struct options *o, int argc, char **argv)
{
	struct option longs[OPTIONS_MAX];
	struct buffer letters = {0};
	int letter, rc = 0, at = 1;

	*o = options_none();
	o->operands = alloc_zero((size_t)argc + 1, sizeof(*o->operands));
	describe_table(&letters, longs);
	opterr = 0;
	optind = 0;		/* resets getopt: completion parses a second line */
	while (rc == 0 && (letter = getopt_long(argc, argv, letters.data, longs, NULL)) != -1) {
		rc = parse_one(o, letter, argv, argv[at]);
		at = optind;
	}
	if (rc == -1)
		o->unknown[0] = '\0';	/* the other mistake was printed */
	while (rc == 0 && optind < argc)	/* operands after "--" */
		o->operands[o->noperands++] = argv[optind++];
	buffer_free(&letters);
	return o->unknown[0] != '\0' ? -1 : rc;
}

void options_free(struct options *o)
{
	free(o->operands);
	*o = (struct options){0};
}

/* ---- of the options that were given ---- */

json_t *options_to_json(const struct options *o, uint64_t bits)
{
	json_t *all = json_object();
	int rc = 0;

	for (size_t i = 0; i < option_specs_count && rc == 0; i++) {
		const struct option_spec *s = &option_specs[i];
		const char *field = (const char *)o + s->offset, *text;
		int64_t number;

		if ((s->bit & bits & o->given) == 0)
			continue;
		memcpy(&text, field, sizeof(text));
		memcpy(&number, field, sizeof(number));
		rc = json_object_set_new(all, s->name,
		    s->kind == OPTION_IS_STRING ? json_string(text) : json_integer(number));
	}
	if (rc == 0)
		return all;
	json_decref(all);
	return NULL;
}

static bool take_value(struct options *o, const struct option_spec *s, const json_t *value)
{
	const char *text = json_string_value(value);
	int64_t number = json_integer_value(value);
	char *field = (char *)o + s->offset;

	o->given |= s->bit;
	if (s->kind == OPTION_IS_STRING) {
		memcpy(field, &text, sizeof(text));
		return text != NULL;
	}
	memcpy(field, &number, sizeof(number));
	return json_is_integer(value) && number >= (s->kind == OPTION_MAY_HAVE_NUMBER ? 0 : s->min) && number <= s->max;
}

int options_from_json(struct options *o, const json_t *json, uint64_t bits)
{
	size_t n = 0;

	for (size_t i = 0; i < option_specs_count; i++) {
		const json_t *value = (option_specs[i].bit & bits) == 0 ? NULL
		    : json_object_get(json, option_specs[i].name);

		if (value != NULL && !take_value(o, &option_specs[i], value))
			return -1;
		n += value != NULL;
	}
	return json_is_object(json) && n == json_object_size(json) ? 0 : -1;
}

/* A single quote becomes '"'"': tables would double a backslash. */
void options_append_quoted(struct buffer *words, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@%+-";

	if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
		buffer_format(words, "%s", text);
		return;
	}
	buffer_append(words, "'", 1);
	for (const char *c = text; *c != '\0'; c++)
		buffer_format(words, *c == '\'' ? "'\"'\"'" : "%c", *c);
	buffer_append(words, "'", 1);
}

/* False: the value is not one of this option. */
static bool append_words(struct buffer *words, const struct option_spec *s, const json_t *value)
{
	if (s->kind == OPTION_IS_STRING ? !json_is_string(value) : !json_is_integer(value))
		return false;
	buffer_format(words, " --%s", s->name);
	if (s->kind == OPTION_IS_STRING) {
		buffer_append(words, " ", 1);
		options_append_quoted(words, json_string_value(value));
	} else if (s->kind != OPTION_MAY_HAVE_NUMBER || json_integer_value(value) != 0) {
		buffer_format(words, "%s%" JSON_INTEGER_FORMAT, s->kind == OPTION_MAY_HAVE_NUMBER ? "=" : " ",
		    json_integer_value(value));
	}
	return true;
}

char *options_to_words(const json_t *json, uint64_t bits)
{
	struct buffer words = {0};
	size_t n = 0;

	for (size_t i = 0; i < option_specs_count; i++) {
		const json_t *value = (option_specs[i].bit & bits) == 0 ? NULL
		    : json_object_get(json, option_specs[i].name);

		n += value != NULL && append_words(&words, &option_specs[i], value);
	}
	buffer_append(&words, "", 1);
	if (json_is_object(json) && n == json_object_size(json))
		return words.data;
	buffer_free(&words);
	return NULL;
}

void options_print(uint64_t bits, FILE *out)
{
	size_t width = wrap_page_width(out);

	for (size_t i = 0; i < option_specs_count; i++) {
		const struct option_spec *s = &option_specs[i];
		char left[64], letter[8] = "    ";
		int at;

		if (bits == 0 ? s->bit != 0 : (s->bit & bits) == 0)
			continue;
		if (s->letter < 256)
			snprintf(letter, sizeof(letter), "-%c, ", s->letter);
		if (s->kind == OPTION_MAY_HAVE_NUMBER)
			snprintf(left, sizeof(left), "%s--%s[=%s]", letter, s->name, s->argument);
		else
			snprintf(left, sizeof(left), "%s--%s%s%s", letter, s->name, s->argument != NULL ? " " : "",
			    s->argument != NULL ? s->argument : "");
		at = fprintf(out, "  %-24s  # ", left);
		wrap_write(out, s->summary, (size_t)at, (size_t)at, width);
		fputc('\n', out);
	}
}
