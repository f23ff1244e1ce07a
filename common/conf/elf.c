/*
 * Judges whether the kernel can execute a file that begins as an ELF program: whether it is whole, and for this CPU.
 * Only programs of the word size of quredisd are judged, since the kernel may know the others, too.
 */
#include <elf.h>
#include <limits.h>
#include <link.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/conf/load.h"

#define SEGMENTS_MAX 512
#define CUT "it is cut short"

static bool read_whole(int fd, void *to, size_t len, ElfW(Off) at)
{
	return at <= LONG_MAX && pread(fd, to, len, (off_t)at) == (ssize_t)len;
}

static bool read_own(ElfW(Ehdr) *own)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool whole = fd != -1 && read_whole(fd, own, sizeof(*own), 0);

	if (fd != -1)
		close(fd);
	return whole;
}

/* True: the kernel hands some files to emulators or loaders of their own, and this process does not know which. */
static bool has_emulators(void)
{
	DIR *d = opendir("/proc/sys/fs/binfmt_misc");
	const struct dirent *e;
	bool found = false;

	while (d != NULL && !found && (e = readdir(d)) != NULL)
		found = e->d_name[0] != '.' && strcmp(e->d_name, "register") != 0 && strcmp(e->d_name, "status") != 0;
	if (d != NULL)
		closedir(d);
	return found;
}

static const char *flaw_of_segment(int fd, ElfW(Off) size, const ElfW(Phdr) *segment, char loader[PATH_MAX])
{
	if (segment->p_type != PT_LOAD && segment->p_type != PT_INTERP)
		return NULL;
	if (segment->p_offset > size || segment->p_filesz > size - segment->p_offset)
		return CUT;
	if (segment->p_type == PT_LOAD)
		return NULL;
	if (segment->p_filesz < 2 || segment->p_filesz > PATH_MAX ||
	    !read_whole(fd, loader, segment->p_filesz, segment->p_offset) || loader[segment->p_filesz - 1] != '\0')
		return "it names no loader that the kernel takes";
	return NULL;
}

static const char *flaw_of_segments(int fd, ElfW(Off) size, const ElfW(Ehdr) *head, char loader[PATH_MAX])
{
	const char *flaw = NULL;
	ElfW(Phdr) *segments;

	if (head->e_phnum == 0 || head->e_phnum > SEGMENTS_MAX || head->e_phentsize != sizeof(*segments))
		return "it is no program, but another ELF file";
	segments = alloc_zero(head->e_phnum, sizeof(*segments));
	if (!read_whole(fd, segments, head->e_phnum * sizeof(*segments), head->e_phoff))
		flaw = CUT;
	for (size_t i = 0; i < head->e_phnum && flaw == NULL; i++)
		flaw = flaw_of_segment(fd, size, &segments[i], loader);
	free(segments);
	return flaw;
}

const char *conf_elf_flaw(int fd, off_t size, char loader[PATH_MAX])
{
	ElfW(Ehdr) head, own;

	loader[0] = '\0';
	if (!read_own(&own))
		return NULL;
	if (!read_whole(fd, &head, sizeof(head), 0))
		return size < (off_t)sizeof(head) ? CUT : NULL;
	if (head.e_ident[EI_CLASS] != own.e_ident[EI_CLASS])
		return NULL;
	if (head.e_ident[EI_DATA] != own.e_ident[EI_DATA] || head.e_machine != own.e_machine)
		return has_emulators() ? NULL : "it is a program for another CPU";
	if (head.e_type != ET_EXEC && head.e_type != ET_DYN)
		return "it is no program, but another ELF file";
	return flaw_of_segments(fd, (ElfW(Off))size, &head, loader);
}
