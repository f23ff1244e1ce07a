/*
 * The slots of a Redis Cluster: CRC16/XMODEM of a key, or of its hash tag, modulo 16384. Commands and scripts work only
 * on keys of one slot.
 */
#include <string.h>

#include "common/redis/redis.h"

#define POLYNOMIAL 0x1021u

static unsigned crc16(const char *bytes, size_t len)
{
	unsigned crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned)(unsigned char)bytes[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 0x8000u) != 0 ? crc << 1 ^ POLYNOMIAL : crc << 1;
	}
	return crc & 0xffffu;
}

const char *redis_hash_tag(const char *key, size_t *len)
{
	const char *open = strchr(key, '{'), *close = open == NULL ? NULL : strchr(open, '}');

	if (close == NULL || close == open + 1)
		return NULL;
	*len = (size_t)(close - open - 1);
	return open + 1;
}

int redis_slot(const char *key)
{
	size_t len = 0;
	const char *tag = redis_hash_tag(key, &len);

	return (int)((tag == NULL ? crc16(key, strlen(key)) : crc16(tag, len)) % REDIS_SLOTS);
}

bool redis_same_slot(const char *key, const char *other)
{
	size_t len, other_len;
	const char *tag = redis_hash_tag(key, &len), *other_tag = redis_hash_tag(other, &other_len);

	return tag != NULL && other_tag != NULL && redis_slot(key) == redis_slot(other);
}
