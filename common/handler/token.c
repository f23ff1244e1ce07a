/*
 * Draws the serials of jobs: 52 random bits each. The kernel's random numbers are fetched for many jobs at once, and
 * become digits without a division, since every message pays for this.
 */
#include <sys/random.h>

#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "common/handler/token.h"

static const char pairs[] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

static uint64_t token_bits(struct token_source *s)
{
	if (s->left == 0) {
		if (getrandom(s->random, sizeof(s->random), 0) != (ssize_t)sizeof(s->random))
			arc4random_buf(s->random, sizeof(s->random));
		s->left = sizeof(s->random) / sizeof(s->random[0]);
	}
	return s->random[--s->left];
}

/* Takes the 32 bits as a fraction of 1, and the next digits of it: n values from `first` on for the first two, 100 for
 * each other two. */
static void put_digits(char *out, uint32_t fraction, unsigned first, unsigned n)
{
	for (int i = 0; i < HANDLER_TOKEN_LEN / 2; i += 2) {
		uint64_t product = (uint64_t)fraction * (i == 0 ? n : 100);

		memcpy(out + i, pairs + 2 * ((i == 0 ? first : 0) + (product >> 32)), 2);
		fraction = (uint32_t)product;
	}
}

void token_draw(struct token_source *s, struct token *out)
{
	uint64_t bits = token_bits(s);

	put_digits(out->text, (uint32_t)(bits >> 32), 10, 80);
	put_digits(out->text + HANDLER_TOKEN_LEN / 2, (uint32_t)bits, 0, 100);
}
