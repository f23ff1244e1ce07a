#include <string.h>
#include <unistd.h>

#include "common/base/address.h"
#include "common/base/nitems.h"
#include "tests/unit/unit.h"

TEST(hosts_and_ports)
{
	static const char *const good[][3] = {
		{ "127.0.0.1:8125", "127.0.0.1", "8125" }, { "metrics.example.net:1", "metrics.example.net", "1" },
		{ "[::1]:65535", "::1", "65535" }, { "h:080", "h", "080" },
	};
	struct address a;

	for (size_t i = 0; i < nitems(good); i++) {
		assert_int_equal(address_parse(&a, good[i][0]), 0);
		assert_string_equal(a.host, good[i][1]);
		assert_string_equal(a.port, good[i][2]);
	}
}

TEST(others)
{
	static const char *const bad[] = { "", ":", "host", "host:", ":8125", "host:0", "host:65536", "host:-1", "host:+1", "host: 1",
		"host:1x", "::1:8125", "[]:1", "[::1]", "a b:1", "udp://h:1", "host:123456789" };
	char longest[400];
	struct address a;

	for (size_t i = 0; i < nitems(bad); i++)
		if (address_parse(&a, bad[i]) != -1)
			fail_msg("%s", bad[i]);
	memset(longest, 'a', sizeof(longest));
	memcpy(longest + 255, ":80", 4);
	assert_int_equal(address_parse(&a, longest), 0);
	memcpy(longest + 255, "a:80", 5);
	assert_int_equal(address_parse(&a, longest), -1);
}

int main(void)
{
	alarm(10);
	return unit_run(NULL, NULL);
}
