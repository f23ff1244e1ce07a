#ifndef ADMIN_WEB_FILES_H
#define ADMIN_WEB_FILES_H

/* Every file of admin/web: a name for the linker, and the path there. The type follows from the ending (web_assets.c). */
#define WEB_FILES(X) \
	X(index_html, "index.html")

#endif
