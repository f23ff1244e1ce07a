/* Reads and writes the text of the lock file; the header describes it. lock.c opens and locks the file. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/stdlib.h>

#include "supervisor/host/lock_text.h"

#include "common/base/base.h"
#include "supervisor/host/lock.h"

#define TEXT_MAX 65536

static bool parse_key(const char *line, unsigned char key[LEFTOVERS_KEY_SIZE])
{
	unsigned byte;
	int end;

	for (size_t i = 0; i < LEFTOVERS_KEY_SIZE; i++, line += 2) {
		if (sscanf(line, "%2x%n", &byte, &end) != 1 || end != 2)
			return false;
		key[i] = (unsigned char)byte;
	}
	return *line == '\n';
}

static void parse_users(const char *line, struct leftovers_users *users)
{
	char *end;

	for (unsigned long uid = strtoul(line, &end, 10); end != line; uid = strtoul(line, &end, 10)) {
		leftovers_users_add(users, (uid_t)uid);
		line = end;
	}
}

/* Reads what an earlier start wrote. Makes a new key if the file has no valid one. */
static void read_text(struct lock *l)
{
	struct buffer text = {0};
	char chunk[4096];
	const char *line;
	ssize_t n;

	while (text.len < TEXT_MAX && (n = pread(l->fd, chunk, sizeof(chunk), (off_t)text.len)) > 0)
		buffer_append(&text, chunk, (size_t)n);
	buffer_append(&text, "", 1);
	line = strstr(text.data, "\nkey ");
	if (line == NULL || !parse_key(line + 5, l->text.key))
		arc4random_buf(l->text.key, sizeof(l->text.key));
	else if ((line = strstr(text.data, "\nusers ")) != NULL)
		parse_users(line + 7, &l->text.users);
	explicit_bzero(text.data, text.len);
	buffer_free(&text);
}

static int write_text(struct lock *l)
{
	char key[2 * sizeof(l->text.key)];
	struct buffer text = {0};
	bool ok;

	buffer_format(&text, "%-10d\nkey ", (int)getpid());
	buffer_append(&text, key, (size_t)(put_hex(key, l->text.key, sizeof(l->text.key)) - key));
	explicit_bzero(key, sizeof(key));
	buffer_format(&text, "\nusers");
	for (size_t i = 0; i < l->text.users.n; i++)
		buffer_format(&text, " %u", (unsigned)l->text.users.uid[i]);
	buffer_format(&text, "\n");
	ok = pwrite(l->fd, text.data, text.len, 0) == (ssize_t)text.len && ftruncate(l->fd, (off_t)text.len) == 0;
	explicit_bzero(text.data, text.len);
	buffer_free(&text);
	return ok ? 0 : -1;
}

int lock_text_add_user(struct lock *l, uid_t uid)
{
	if (leftovers_users_have(&l->text.users, uid))
		return 0;
	leftovers_users_add(&l->text.users, uid);
	if (write_text(l) == 0)
		return 0;
	l->text.users.n--;		/* removes the user, which is the last one */
	return -1;
}

void lock_text_forget_key(struct lock_text *t)
{
	explicit_bzero(t->key, sizeof(t->key));
}

void lock_text_free(struct lock_text *t)
{
	leftovers_users_free(&t->users);
}

/* A key that other users could read or write proves nothing, so it is replaced. */
int lock_text_take_over(struct lock *l)
{
	l->text.users.n = 0;
	if (l->believed)
		read_text(l);
	else
		arc4random_buf(l->text.key, sizeof(l->text.key));
	leftovers_users_add(&l->text.users, getuid());
	leftovers_users_add(&l->text.users, geteuid());
	return write_text(l);
}
