/* A text on the scoreboard: safe text, and nothing of a write that was cut short. */
#include <string.h>

#include "common/base/nitems.h"
#include "common/board/slot_text.h"
#include "tests/unit/unit.h"

#define MOST 60

static struct slot_text text_of_a_child;

static int setup(void **state)
{
	(void)state;
	memset((void *)&text_of_a_child, 0, sizeof(text_of_a_child));
	return 0;
}

static void is(int number, const char *text)
{
	struct slot_text_seen seen = slot_text_read(&text_of_a_child);

	assert_int_equal(seen.number, number);
	assert_string_equal(seen.text, text);
}

TEST(set_and_cleared, setup)
{
	is(-1, "");
	slot_text_set(&text_of_a_child, 0, "", 0, MOST);
	is(0, "");
	slot_text_set(&text_of_a_child, 100, "all", 3, MOST);
	is(100, "all");
	slot_text_clear(&text_of_a_child);
	is(-1, "");
}

TEST(the_text_is_safe, setup)
{
	static const struct {
		const char *text, *shown;
		size_t len;
	} cases[] = {
		{ "page 2 of 7", "page 2 of 7", 11 },
		{ "\x1b[2J\r\n\t\0x\x7f", "?[2J????x?", 10 },
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9 },
		{ "\xff\xc3\xe2\x82", "????", 4 },			/* no UTF-8 */
		{ "\xc0\xaf\xed\xa0\x80", "?????", 5 },			/* too long a form; half a pair */
		{ "\xc2\x9b" "31m\xe2\x80\xae" "abc", "??31m???abc", 11 },	/* a control character of 8 bits; right to left */
	};

	for (size_t i = 0; i < nitems(cases); i++) {
		slot_text_set(&text_of_a_child, 1, cases[i].text, cases[i].len, MOST);
		is(1, cases[i].shown);
	}
}

TEST(a_long_text_is_cut_between_characters, setup)
{
	char text[200], shown[64];

	memset(text, 'a', sizeof(text));
	memset(shown, 'a', sizeof(shown));
	shown[MOST] = '\0';
	slot_text_set(&text_of_a_child, 2, text, sizeof(text), MOST);
	is(2, shown);
	memcpy(text + MOST - 1, "\xc3\xa9", 2);
	shown[MOST - 1] = '\0';
	slot_text_set(&text_of_a_child, 3, text, sizeof(text), MOST);
	is(3, shown);
}

TEST(a_long_text_is_cut_between_words, setup)
{
	static const char words[] = "ModuleNotFoundError: No module named 'something', of /srv/application/jobs.py";
	static const char accents[] = "ModuleNotFoundError: No module named \xc3\xa9\xc3\xa9 "
	    "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9";

	slot_text_set(&text_of_a_child, 2, words, strlen(words), MOST);
	is(2, "ModuleNotFoundError: No module named 'something', of ...");
	slot_text_set(&text_of_a_child, 2, words, 52, MOST);
	is(2, "ModuleNotFoundError: No module named 'something', of");
	slot_text_set(&text_of_a_child, 2, accents, strlen(accents), MOST);
	is(2, "ModuleNotFoundError: No module named \xc3\xa9\xc3\xa9 ...");
}

/* The worker was killed while it wrote. */
TEST(half_a_write_is_not_seen, setup)
{
	slot_text_set(&text_of_a_child, 40, "abc", 3, MOST);
	atomic_fetch_add(&text_of_a_child.turn, 1);
	is(-1, "");
	slot_text_clear(&text_of_a_child);
	is(-1, "");
	slot_text_set(&text_of_a_child, 50, "d", 1, MOST);
	is(50, "d");
}

UNIT_MAIN(NULL, NULL)
