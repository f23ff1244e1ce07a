/* Which file systems are on the network, by what statfs(2) says of them. */
#include <sys/vfs.h>

#include <stddef.h>
#include <stdint.h>

#include "common/network_fs.h"

#include "common/nitems.h"

static const struct { uint32_t magic; const char *name; } network[] = {
	{ 0x00006969, "nfs" }, { 0x0000517b, "smb" }, { 0xff534d42, "cifs" }, { 0xfe534d42, "smb2" },
	{ 0x5346414f, "afs" }, { 0x6b414653, "kafs" }, { 0x73757245, "coda" }, { 0x00c36400, "ceph" },
	{ 0x0bd00bd0, "lustre" }, { 0x7461636f, "ocfs2" }, { 0x01161970, "gfs2" }, { 0x0000564c, "ncp" },
	{ 0x01021997, "9p" }, { 0x47504653, "gpfs" }, { 0xaad7aaea, "panfs" }, { 0x19830326, "fhgfs" },
};

const char *network_fs_name(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) == -1)
		return NULL;
	for (size_t i = 0; i < nitems(network); i++)
		if ((uint32_t)fs.f_type == network[i].magic)
			return network[i].name;
	return NULL;
}
