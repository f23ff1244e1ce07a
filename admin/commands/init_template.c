/* The handlers that quredis init writes: one for each language. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/commands/commands.h"
#include "admin/commands/init_template.h"

#include "common/base/base.h"

static const struct init_template templates[] = {
	{ "python", "greet.py", 0600, "function = \"", "\"; message = \"text\";",
	    "def handle(message, job):\n"
	    "    if not message:\n"
	    "        job.reject(\"nobody to greet\")        # a retry cannot succeed\n"
	    "    print(\"hello, \" + message)               # to the log of quredisd\n" },
	{ "ruby", "greet.rb", 0600, "function = \"", "\"; message = \"text\";",
	    "def handle(message, job)\n"
	    "  job.reject(\"nobody to greet\") if message.empty?   # a retry cannot succeed\n"
	    "  puts \"hello, #{message}\"                          # to the log of quredisd\n"
	    "end\n" },
	/* not .js: a package.json above DIR could make that an ES module */
	{ "node", "greet.cjs", 0600, "function = \"", "\"; message = \"text\";",
	    "async function handle(message, job) {\n"
	    "  if (!message) job.reject(\"nobody to greet\");      // a retry cannot succeed\n"
	    "  console.log(\"hello, \" + message);                 // to the log of quredisd\n"
	    "}\n"
	    "module.exports = { handle };\n" },
	{ "php", "greet.php", 0600, "function = \"", "\"; message = \"text\";",
	    "<?php\n"
	    "function handle($message, $job)\n"
	    "{\n"
	    "    if ($message === \"\") {\n"
	    "        $job->reject(\"nobody to greet\");            // a retry cannot succeed\n"
	    "    }\n"
	    "    echo \"hello, $message\\n\";                       // to the log of quredisd\n"
	    "}\n" },
	{ "perl", "greet.pl", 0600, "function = \"", "\"; message = \"text\";",
	    "use strict;\n"
	    "use warnings;\n"
	    "\n"
	    "sub handle {\n"
	    "    my ($message, $job) = @_;\n"
	    "    $job->reject(\"nobody to greet\") if $message eq \"\";     # a retry cannot succeed\n"
	    "    print \"hello, $message\\n\";                             # to the log of quredisd\n"
	    "}\n"
	    "1;\n" },
	{ "sh", "greet.sh", 0700, "handler = [\"", "\"];",
	    "#!/bin/sh\n"
	    "# Exit status 0: done; 75: retry later; 65: a retry cannot succeed; any other: a failed attempt.\n"
	    "name=$(cat)\n"
	    "[ -n \"$name\" ] || { echo \"nobody to greet\" >&2; exit 65; }\n"
	    "echo \"hello, $name\"         # to the log of quredisd\n" },
};

const char *init_template_language(size_t i)
{
	return i < nitems(templates) ? templates[i].language : NULL;
}

const struct init_template *init_template_find(struct admin *a)
{
	const char *names[nitems(templates)], *wanted = a->options.lang;
	char *hint, *shown;

	for (size_t i = 0; i < nitems(templates); i++) {
		names[i] = templates[i].language;
		if (wanted != NULL && strcmp(wanted, names[i]) == 0)
			return &templates[i];
	}
	if (wanted == NULL) {
		admin_fail(a, EX_USAGE, "init requires --lang: python, ruby, node, php, perl or sh");
		return NULL;
	}
	hint = notice_suggest(wanted, names, nitems(names), "");
	shown = visible(wanted, strlen(wanted), 100);
	admin_fail(a, EX_USAGE, "--lang: %s is not python, ruby, node, php, perl or sh%s", shown, hint);
	free(shown);
	free(hint);
	return NULL;
}
