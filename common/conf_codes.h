#ifndef COMMON_CONF_CODES_H
#define COMMON_CONF_CODES_H

#include "common/conf_load.h"

struct config_setting_t;

/* The group exit_codes into codes, which hold the defaults first. -1: reported. */
int conf_codes_read(struct conf_loading *l, const struct conf_source *s, const struct config_setting_t *group,
    enum conf_outcome codes[256]);

#endif
