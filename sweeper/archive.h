#ifndef SWEEPER_ARCHIVE_H
#define SWEEPER_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The archive of one queue's dead letters on this node: DIRECTORY/QUEUE@NODE.ndjson, and what was full before,
 * DIRECTORY/QUEUE@NODE@TIME.ndjson. All of it may block: it is called in an errand, one at a time (it locks
 * the file). What is written in one go is a batch; each line names it.
 */
struct archive {
	const char *directory, *queue, *node;
	int64_t file_max;		/* bytes; a file that has so many gets no more */
};

/*
 * Appends these lines, on the disk when it returns. stamp: for the name of the file if that is full now.
 * Returns 0; or 1, and why stands in `out`: then nothing of them is in the file.
 */
int archive_append(const struct archive *a, const void *lines, size_t len, const char *stamp, int out);

/*
 * Cuts a torn last line off, and writes to `out` the records that the last batch names, one line each: "ID DIGEST", and " orphan" if the record had no
 * message. Of a line without a digest it is the sha1 of the message, or "-" if that is not known. All of them are on the disk. Returns 0, or 1 as above.
 */
int archive_last_batch(const struct archive *a, int out);

#endif
