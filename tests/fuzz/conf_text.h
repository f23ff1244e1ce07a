#ifndef TESTS_FUZZ_CONF_TEXT_H
#define TESTS_FUZZ_CONF_TEXT_H

#include "common/conf/conf.h"

/* A configuration file without a place: conf_text_path() can be given to conf_load(). A new string. */
char *conf_text_path(const char *text);

/* The same, loaded. It has no errors. */
struct conf *conf_text_load(const char *text);

#endif
