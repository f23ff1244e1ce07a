"""A resolver that takes long, for the programs under test: a library that is loaded before the one of the system."""
import subprocess

from .waiting import wait_for

# A name that begins with "slow." is the host behind it, after as many seconds as the file SLOW says.
RESOLVER = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note(const char *file)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);

	dprintf(fd, "%d\n", (int)getpid());
	close(fd);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
	FILE *f = fopen(getenv("SLOW"), "r");
	unsigned left = 0;

	if (node == NULL || strncmp(node, "slow.", 5) != 0)
		return real(node, service, hints, out);
	if (f != NULL && fscanf(f, "%u", &left) == 1 && left > 0)
		note(getenv("RESOLVING"));
	while (left > 0)
		left = sleep(left);
	return real(node + 5, service, hints, out);
}
"""


class Resolver:
    def __init__(self, tmp):
        self._file, self._asked = tmp / "slow", tmp / "resolving"
        (tmp / "slow.c").write_text(RESOLVER)
        subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp / "slow.so", tmp / "slow.c"], check=True, timeout=60)
        self.env = {"LD_PRELOAD": str(tmp / "slow.so"), "SLOW": str(self._file), "RESOLVING": str(self._asked)}
        self.take(0)

    def take(self, seconds):
        if seconds:
            self._asked.unlink(missing_ok=True)     # a handler may still look for the last question
        self._file.write_text(f"{seconds}\n")

    def wait_asked(self, pid):
        wait_for(lambda: self._asked.exists() and str(pid) in self._asked.read_text().split(), 60, "a question to the resolver")

    @staticmethod
    def slow(url):
        """The same address, with a name that this resolver resolves."""
        return url.replace("127.0.0.1", "slow.127.0.0.1")
