#ifndef SWEEPER_DEAD_LETTERS_ARCHIVE_H
#define SWEEPER_DEAD_LETTERS_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The archive of one queue's dead letters on this node: DIRECTORY/QUEUE@NODE.ndjson, and the full files before it,
 * DIRECTORY/QUEUE@NODE@TIME.ndjson. All functions may block, so they run in a subprocess, one at a time (they lock the
 * file). The lines of one append are a batch; each line contains the name of its batch.
 */
struct archive {
	const char *directory, *queue, *node;
	int64_t file_max;		/* bytes; a file of this size gets no more lines */
};

/*
 * Appends these lines; they are on the disk when it returns. stamp: for the name of the present file if it is full.
 * Returns 0; or 1, with the reason written to `out`: then the file has none of the lines.
 */
int archive_append(const struct archive *a, const void *lines, size_t len, const char *stamp, int out);

/*
 * Cuts off an incomplete last line, and writes to `out` the records of the last batch, one a line: "ID DIGEST", and "
 * orphan" if the record had no message. A line without a digest gives the sha1 of the message, or "-" if that is not
 * known, either. All of these records are on the disk. Returns 0, or 1 as above.
 */
int archive_last_batch(const struct archive *a, int out);

#endif
