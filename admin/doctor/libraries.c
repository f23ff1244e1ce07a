/* Checks the libraries that read bytes from the network. Programs of this host load the same ones, if they were started
 * after the last update. */
#include "admin/doctor/checks.h"

#include "common/base/base.h"

int check_libraries(struct doctor *d)
{
	const struct library *l;
	struct buffer all = {0};
	int old = 0;

	for (size_t i = 0; (l = libraries_at(i)) != NULL; i++) {
		buffer_format(&all, "%s%s %s", i == 0 ? "" : ", ", l->name, l->version());
		if (!libraries_older(l->version(), l->least))
			continue;
		old++;
		findings_advise(findings_add(d, SEVERITY_NOTE, l->name,
		    "%s %s is older than %s: earlier versions have known holes", l->name, l->version(), l->least),
		    "install the security updates of this system and restart the supervisor; if they are installed, "
		    "its vendor may have repaired this version");
	}
	buffer_append(&all, "", 1);
	if (old == 0)
		findings_add(d, SEVERITY_OK, NULL, "%s", all.data);
	buffer_free(&all);
	return 0;
}
