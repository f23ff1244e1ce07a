# quredis. GNU make, one file for the whole tree.
#
#   make                  build/quredisd and build/quredis
#   make check            everything that is tested        make unit    only the unit tests
#   make ttl-soak         that nothing expires early, with 100,000 messages (TTL_MESSAGES=)
#   make dead-letters-soak  bounds of dead letters, 100,000 of them, on a machine that nobody else uses (DEAD_LETTERS_FAILURES= and so on)
#   make operations-soak  retries and deletions of dead letters by a filter, with 40,000 of them (QUREDIS_TEST_DEAD_LETTERS=), on the command line and in a browser
#   make functions        bad messages for functions in each language, then kill -9 at random for 60 s (FUNCTIONS_SECONDS=)
#   make seats-soak       two supervisors and their workers die at random for ten minutes: never six of five messages run (SEATS_SECONDS=)
#   make schedules-soak   five supervisors die at random for ten minutes, and the clock of Redis is set: no tick twice (SCHEDULES_SECONDS=)
#   make emit-soak        100,000 leaves of what handlers emit, and 500 kills (EMIT_SOAK_LEAVES=, EMIT_SOAK_KILLS=, EMIT_SOAK_SEED=)
#   make purge-soak       a purge of a million messages
#   make soak             everything dies at random, with a million messages (SOAK_MESSAGES= and so on)
#   make episodes         short random episodes, 500 of 20 s (EPISODESFLAGS="--seeds 1-50 --jobs 2")
#   make soak-rollback    Redis goes back in time, 300 times, with a million messages (the same)
#   make soak-large       messages up to 256 MiB over a slow link, on a machine that nobody else uses (LARGE_SIZES= and so on)
#   make crashpoints      each process killed at each of its system calls (ONLY=worker)
#   make faults           each connection to Redis is broken at each point (FAULTSFLAGS=--tls: over TLS)
#   make writers          which files assign the fields of each struct that has more than one owner
#   make layers           which folder includes which; an include past the table of folders fails
#   make model            the protocol as a model, searched by Spin
#   make mutants          quredis with one mistake in it, again and again: do the tests see it?
#   make check-reach     the promises plain, over TLS, through Sentinel and on a Cluster, each with Redis 7, Redis 8 and Valkey 8 (REACHFLAGS="--reach tls")
#   make check-matrix    all tests on Debian 13, against Redis 8 and Valkey 8 (RELEASE=bookworm); root, debootstrap
#   make check-packages   Debian's packages on bare Debian 12 and 13, used as the README says, and by autopkgtest (RELEASE=trixie STEPS=); root, debootstrap
#   make bench            what a message costs (ONLY=persistent, BENCHFLAGS=--quick); bench-peers: the others too
#   make bench-compare BEFORE=dir   the same rows with another tree's programs in the same rounds
#   make SAN=1 check      the same under ASan and UBSan    make CC=clang, WERROR=1, V=1, BUILD=dir
#   make valgrind         unit programs, quredisd and quredis under valgrind (install it first)
#   make fuzz             libFuzzer with both, FUZZ_S=180 seconds a target (ONLY=conf); docs/fuzzing.md
#   make deb              Debian packages in build/deb/ (debhelper, dpkg-dev)
#   make release-check    may this commit be released? Tests, distcheck, packages, and everything that is built twice is the same (STEPS="versions binaries")
#   make sbom             what the programs link and what is bundled, as SPDX, in build/
#   make rpm-check        builds the RPM spec and reads the result, which is no package on Debian (rpm)
#   make install DESTDIR= prefix= sysconfdir= ...
#
# CC CFLAGS CPPFLAGS LDFLAGS LDLIBS belong to the user; what the sources need is kept apart from them.

# Without the rules that make knows by itself: it would try each of them for each of the 600 files of dependencies.
MAKEFLAGS += -r

# The only place that sets it. tests/release/versions says which texts must agree.
VERSION = 0.1.0

CFLAGS  ?= $(if $(filter short,$(FUZZ)),-O0,-O2) -g
PYTHON  ?= /usr/bin/python3
INSTALL ?= install

prefix     ?= /usr/local
bindir     ?= $(prefix)/bin
sbindir    ?= $(prefix)/sbin
mandir     ?= $(prefix)/share/man
docdir     ?= $(prefix)/share/doc/quredis
completions ?= $(prefix)/share
zshdir     ?= $(completions)/zsh/site-functions
libdir     ?= $(prefix)/lib
libexecdir ?= $(prefix)/libexec
unitdir    ?= $(libdir)/systemd/system
sysconfdir ?= /etc

# ---- modes: each compiler and sanitizer has its own directory -----------------------------------

BUILD ?= build
MODE  := $(if $(filter clang%,$(notdir $(CC))),clang,)
MODE  := $(MODE)$(if $(SAN),$(if $(MODE),-)san,)$(if $(FUZZ),-fuzz,)$(if $(filter coverage short,$(FUZZ)),-$(FUZZ))
MODE  := $(if $(MODE),$(MODE),release)
O     := $(BUILD)/$(MODE)

# ---- sources ------------------------------------------------------------------------------------

# Each folder is a static library, with all .c files of it and of those below it that are not in the table. The table says which folders it may use: those behind its name, and
# what these use in turn. A folder stands behind all that it uses, so nothing here can go round in a circle. A call past the table does
# not link ($O/FOLDER/wall), and `make layers` and tests/tree/test_layers.py see an include past it.
reversed = $(if $1,$(call reversed,$(wordlist 2,$(words $1),$1)) $(firstword $1))
define folder
FOLDERS  += $1
USES_$1  := $2
BELOW_$1 := $$(call reversed,$$(filter $2 $$(foreach f,$2,$$(BELOW_$$f)),$$(FOLDERS)))
endef
FOLDERS :=
$(eval $(call folder,common/base,))
$(eval $(call folder,common/log,common/base))
$(eval $(call folder,common/redis,common/base))
$(eval $(call folder,common/message,common/base))
$(eval $(call folder,common/cron,common/base))
$(eval $(call folder,common/conf,common/log common/redis common/cron))
$(eval $(call folder,common/facts,common/base))
$(eval $(call folder,common/board,common/conf common/message common/facts))
$(eval $(call folder,common/queue,common/board))
$(eval $(call folder,common/dead_letters,common/queue))
$(eval $(call folder,common/handler,common/conf common/message))
$(eval $(call folder,common/holds,common/queue common/handler))
$(eval $(call folder,admin/cli,common/holds common/dead_letters))
$(eval $(call folder,admin/queues,admin/cli))
$(eval $(call folder,admin/dead_letters,admin/queues))
$(eval $(call folder,admin/operations,admin/dead_letters))
$(eval $(call folder,worker,common/handler common/dead_letters))
$(eval $(call folder,sweeper/core,common/queue common/handler))
$(eval $(call folder,sweeper/registry,sweeper/core))
$(eval $(call folder,sweeper/dead_letters,sweeper/core admin/operations))
$(eval $(call folder,sweeper/age,sweeper/dead_letters))
$(eval $(call folder,sweeper/rescue,sweeper/registry sweeper/age))
$(eval $(call folder,sweeper/report,sweeper/rescue common/holds))
$(eval $(call folder,sweeper,sweeper/report))
$(eval $(call folder,supervisor/host,common/conf))
$(eval $(call folder,supervisor/children,worker sweeper supervisor/host))
$(eval $(call folder,supervisor/queues,supervisor/children))
$(eval $(call folder,supervisor,supervisor/queues))
$(eval $(call folder,admin/moves,admin/operations))
$(eval $(call folder,admin/trial,admin/dead_letters))
$(eval $(call folder,admin/doctor,admin/moves admin/trial))
$(eval $(call folder,admin/web,admin/operations))
$(eval $(call folder,admin/top,admin/web))
$(eval $(call folder,admin/trend,admin/cli))
$(eval $(call folder,admin/commands,admin/doctor admin/top admin/trial admin/trend))
$(eval $(call folder,admin,admin/commands))

UNIT   := $(wildcard tests/unit/*/test_*.c)
FUZZED := $(wildcard tests/fuzz/fuzz_*.c)

DAEMON_LIBS = -lhiredis -lssl -lcrypto -lconfig -lbsd -lnettle -ljansson
CLI_LIBS    = $(DAEMON_LIBS) -levent_core -levent_extra
UNIT_LIBS   = -lcmocka $(CLI_LIBS)

library    = $(1:%=$O/%/library.a)
LIBRARIES := $(call library,$(call reversed,$(FOLDERS)))
# main() is the program's, not its folder's
sources_of = $(filter-out %/main.c $(foreach f,$(filter $1/%,$(FOLDERS)),$f/%),$(wildcard $1/*.c $1/*/*.c))
UNIT_PROGS  := $(patsubst %.c,$O/unit/%,$(notdir $(UNIT)))
FUZZ_PROGS  := $(FUZZED:tests/fuzz/%.c=$O/fuzz/%)

all: $O/quredisd $O/quredis $O/runtimes $(FOLDERS:%=$O/%/wall)
# A program that is not installed finds the runners of functions beside itself.
$O/runtimes:
	@mkdir -p $O && ln -sfnr etc/runtimes $@
ifeq ($O,build/release)
all: build/quredisd build/quredis
build/quredisd build/quredis: build/%: build/release/%
	@ln -sfn release/$* $@
endif

# ---- flags --------------------------------------------------------------------------------------

WARNINGS = -Wall -Wextra -Wformat=2 -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wimplicit-fallthrough -Werror=format-security $(if $(WERROR),-Werror)

# Asked of the compiler one by one; what it does not know is left out.
HARDENING = -fstack-protector-strong -fstack-clash-protection -fcf-protection=full \
	-ftrivial-auto-var-init=zero -fno-delete-null-pointer-checks -fno-strict-overflow \
	-fno-strict-aliasing -fstrict-flex-arrays=3
HARDENING_LINK = -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,nodlopen -Wl,-z,separate-code
ifdef FUZZ
# float-cast-overflow: numbers of strangers become integers. FUZZ=coverage: what the corpora reach is told by llvm-cov.
SANITIZE = -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow \
	-fno-omit-frame-pointer $(if $(filter coverage,$(FUZZ)),-fprofile-instr-generate -fcoverage-mapping)
else ifdef SAN
SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
else
# behind CPPFLAGS, in which dpkg-buildflags has a lower level
FORTIFY = $(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif

# These need no compiler; promtool, servers, axe, inits and kubernetes-models run beside a make that writes the file.
ifeq ($(filter-out clean deb deb-anew check-packages rpm-check dist distcheck release-check uninstall promtool servers axe inits kubernetes-models,$(or $(MAKECMDGOALS),all)),)
else
include $O/probed.mk
endif

$O/probed.mk: Makefile
	@mkdir -p $O
	@for f in $(HARDENING) $(HARDENING_LINK) -fuse-ld=gold; do \
		echo 'int main(void) { return 0; }' | \
		$(CC) -Werror $$f -x c - -o $@.out 2>/dev/null || continue; \
		case $$f in -fuse-ld=*) echo "FAST_LINKER = $$f";; -Wl,*) echo "PROBED_LINK += $$f";; *) echo "PROBED += $$f";; esac; \
	done >$@.tmp; rm -f $@.out; mv $@.tmp $@

DEFINES = -D_GNU_SOURCE -DQUREDIS_VERSION='"$(VERSION)"' -DQUREDIS_SYSCONFDIR='"$(sysconfdir)"' \
	-DQUREDIS_LIBEXECDIR='"$(libexecdir)/quredis"'
COMPILE = $(CC) -std=gnu17 $(DEFINES) -I. -MMD -MP $(WARNINGS) -fPIE $(PROBED) $(SANITIZE) \
	$(CPPFLAGS) $(FORTIFY) $(CFLAGS)
LINK    = $(CC) $(CFLAGS) -pie $(PROBED_LINK) -Wl,--as-needed $(SANITIZE) $(LDFLAGS)
# A change of a library links all unit programs again; gold, which knows not all options of HARDENING_LINK, takes a third of the time.
UNIT_LINK = $(CC) $(CFLAGS) -pie $(FAST_LINKER) -Wl,--as-needed $(SANITIZE) $(LDFLAGS)

# The same sources give the same bytes in each folder. Apart from COMPILE, so that a tree which moved is not compiled again. With a sanitizer,
# or for a coverage, files keep their place.
ANYWHERE = $(if $(SANITIZE),,-ffile-prefix-map=$(CURDIR)=.)

# Objects are made again when the command changes, not only when a source does.
$O/command: FORCE
	@mkdir -p $O
	@printf '%s\n' $(call quote,$(COMPILE)) $(call quote,$(LINK)) $(call quote,$(UNIT_LINK)) | cmp -s - $@ || \
		printf '%s\n' $(call quote,$(COMPILE)) $(call quote,$(LINK)) $(call quote,$(UNIT_LINK)) >$@
quote = '$(subst ','\'',$1)'

# V=1 shows the commands.
Q    = $(if $(V),,@)
say  = @printf '%-5s %s\n' $1 $2

# ---- rules --------------------------------------------------------------------------------------

$O/%.o: %.c $O/command
	@mkdir -p $(@D)
	$(call say,cc,$<)
	$Q$(COMPILE) $(ANYWHERE) -c -o $@ $<

# A unit test itself runs for milliseconds; what it tests is in the libraries, compiled as for everybody. private: $O/command needs it too.
$O/tests/unit/%.o: private COMPILE += -U_FORTIFY_SOURCE -O0

# embedded with .incbin, which -MMD does not see
$O/common/queue/scripts.o: $(wildcard common/queue/scripts/*.lua common/queue/scripts/shared/*.lua)
$O/admin/web/assets.o: $(wildcard admin/web/assets/*)

# A library is made again when a source of its folder is removed, too.
$O/sources: FORCE
	@mkdir -p $O
	@printf '%s\n' $(foreach f,$(FOLDERS),$(call sources_of,$f)) | cmp -s - $@ || printf '%s\n' $(foreach f,$(FOLDERS),$(call sources_of,$f)) >$@

define folder_rules
$O/$1/library.a: $(patsubst %.c,$O/%.o,$(call sources_of,$1)) $O/sources
	@mkdir -p $$(@D)
	$$Qrm -f $$@ && $$(AR) rcs $$@ $$(filter %.o,$$^)
$O/$1/wall: $(call library,$1 $(BELOW_$1))
	$$Q$$(LINK) -Wl,--defsym=main=0 -Wl,--whole-archive $$< -Wl,--no-whole-archive $$(filter-out $$<,$$^) -o $$@ $$(CLI_LIBS) $$(LDLIBS)
endef
$(foreach f,$(FOLDERS),$(eval $(call folder_rules,$f)))

$O/quredisd: $O/supervisor/main.o $(call library,supervisor $(BELOW_supervisor))
	$(call say,link,$@)
	$Q$(LINK) -o $@ $^ $(DAEMON_LIBS) $(LDLIBS)

$O/quredis: $O/admin/main.o $(call library,admin $(BELOW_admin))
	$(call say,link,$@)
	$Q$(LINK) -o $@ $^ $(CLI_LIBS) $(LDLIBS)

# Both programs as another version, for tests/promises/test_versions.py: make other-version OTHER=dir OTHER_FLAGS='-DQUREDIS_VERSION=...'. Only the files that
# name the version, the layout of the keys or the deprecated names are compiled; they stand before the libraries, which have the others.
OTHER ?= $O/other
VERSIONED = $(shell grep -lE 'QUREDIS_(VERSION|SCHEMA)|DEPRECATED_TABLE' $(foreach f,common worker sweeper supervisor admin,$(wildcard $f/*.c $f/*/*.c $f/*/*/*.c)))
OTHER_OBJECTS = $(foreach f,$1,$(OTHER)/$(subst /,.,$(f:.c=.o)))
other-version:
	@mkdir -p $(OTHER)
	$Q$(foreach f,$(VERSIONED),$(COMPILE) -UQUREDIS_VERSION $(OTHER_FLAGS) -c -o $(call OTHER_OBJECTS,$f) $f &&) :
	$Q$(LINK) -o $(OTHER)/quredisd $(call OTHER_OBJECTS,$(filter-out admin/%,$(VERSIONED))) $(call library,supervisor $(BELOW_supervisor)) $(DAEMON_LIBS) $(LDLIBS)
	$Q$(LINK) -o $(OTHER)/quredis $(call OTHER_OBJECTS,$(filter-out supervisor/% sweeper/%,$(VERSIONED))) $O/admin/main.o $(call library,admin $(BELOW_admin)) $(CLI_LIBS) $(LDLIBS)

# The table of folders, for tests/tree/layers: FOLDER: FOLDER THAT IT MAY USE ...
print-folders:
	@$(foreach f,$(FOLDERS),echo '$f: $(USES_$f)';)

layers:
	tests/tree/layers

writers:
	tests/tree/writers

# A unit test is linked with the libraries of all folders; the linker takes from them what the test calls. A function that the test defines
# itself stands in for the library's, as long as nothing else of the library's file is called. In comments the test names
# other sources of tests/ and linker flags, where it needs any:
#	/* links: tests/unit/private_redis.c */
#	/* ldflags: -Wl,--wrap=malloc */
# One command reads all, as words "FILE:NAME:~VALUE~VALUE": make would start two for each program, whatever it is asked for.
COMMENTS := $(shell grep -HE '^/\* *(links|ldflags): ' $(UNIT) $(wildcard tests/fuzz/*.c) /dev/null | sed 's,:/\* *,:,; s, *\*/$$,,; s, ,~,g')
comment = $(subst ~, ,$(patsubst $2.c:$1:%,%,$(filter $2.c:$1:%,$(COMMENTS))))
define unit_program
$O/unit/$(notdir $1): $O/$1.o $(patsubst %.c,$O/%.o,$(call comment,links,$1)) $(LIBRARIES)
	@mkdir -p $O/unit
	$$(call say,link,$$@)
	$$Q$$(UNIT_LINK) $(call comment,ldflags,$1) -o $$@ $$(filter %.o %.a,$$^) $(UNIT_LIBS) $(LDLIBS)
endef
$(foreach t,$(UNIT:.c=),$(eval $(call unit_program,$t)))

unit-programs: $(UNIT_PROGS)

# They run beside quredisd, or in it, and are not what is tested: no sanitizer.
CRASHPOINTS := $O/crashpoints/tracer $O/crashpoints/nomem.so
CRASHPOINTS_COMPILE = $(CC) -std=gnu17 -D_GNU_SOURCE $(WARNINGS) -O1 -g -I. -I$O/crashpoints
crashpoint-programs: $(CRASHPOINTS)

$O/crashpoints/calls.h: Makefile
	@mkdir -p $(@D)
	@echo '#include <sys/syscall.h>' | $(CC) -E -dM -x c - | \
		sed -n 's/^#define SYS_\([a-z0-9_]*\) .*/{ "\1", SYS_\1 },/p' >$@

$O/crashpoints/tracer: $(addprefix tests/crashpoints/,tracer.c descent.c descent.h call.c call.h) $O/crashpoints/calls.h
	$(call say,cc,$@)
	$Q$(CRASHPOINTS_COMPILE) -o $@ $(filter %.c,$^)

$O/crashpoints/nomem.so: tests/crashpoints/nomem.c $O/crashpoints/calls.h
	$(call say,cc,$@)
	$Q$(CRASHPOINTS_COMPILE) -fPIC -shared -o $@ $<

# What checks figures and alert rules for Prometheus, and the server that a test starts, come out of Debian's package, without its
# service. Without a network the tests that need them are left out, and say so.
TOOLS := $(BUILD)/tools
promtool:
	@test -x $(TOOLS)/promtool -a -x $(TOOLS)/prometheus || { mkdir -p $(TOOLS)/prometheus.d && cd $(TOOLS)/prometheus.d && \
		apt-get -q download prometheus >/dev/null 2>&1 && dpkg-deb --fsys-tarfile prometheus_*.deb | \
		tar -xf - --strip-components=3 ./usr/bin/promtool ./usr/bin/prometheus && mv promtool prometheus .. && cd .. && rm -r prometheus.d; } || \
		echo "Prometheus could not be fetched: what it checks is left out"

# Redis 8 and Valkey 8 of Debian 13, on any Debian, in the same way.
servers:
	@tests/matrix/servers $(BUILD)/servers || :

# Init systems and logrotate (tests/init), in the same way.
inits:
	@tests/init/fetch $(TOOLS)/init || :

# What checks that everybody can use the pages (tests/web/test_axe.py).
axe:
	@test -e $(BUILD)/axe/node_modules/axe-core/axe.min.js || npm install --no-audit --no-fund --silent --prefix $(BUILD)/axe axe-core@4 || \
		echo "axe-core could not be fetched: the test with it is left out"

# The schemas of Kubernetes and KEDA (tests/container/test_kubernetes.py).
MODELS = $(BUILD)/kubernetes-models
kubernetes-models:
	@test -d $(MODELS)/node_modules/@kubernetes-models/keda || npm install --no-audit --no-fund --silent --prefix $(MODELS) kubernetes-models@4 @kubernetes-models/keda@0 || \
		echo "kubernetes-models could not be fetched: the tests with it are left out"

# The pictures of docs/console.md, drawn anew; a test in tests/web does the same without writing them.
pictures: all
	@command -v pngquant >/dev/null || { echo "pictures: pngquant is not installed (apt-get install pngquant)" >&2; exit 69; }
	QUREDIS_BUILD=$O QUREDIS_TEST_PICTURES=$(CURDIR)/docs /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/web/test_pictures.py -k drawn

unit: unit-programs
	tests/run --build $O --unit

# ---- fuzzing ------------------------------------------------------------------------------------

# Linked as unit programs are. They need clang and its run-time libraries, so they are made by a make of their own.
define fuzz_program
$O/fuzz/$1: $O/tests/fuzz/$1.o $(patsubst %.c,$O/%.o,$(call comment,links,tests/fuzz/$1)) $(LIBRARIES)
	@mkdir -p $O/fuzz
	$$(call say,link,$$@)
	$$Q$$(LINK) -fsanitize=fuzzer $(call comment,ldflags,tests/fuzz/$1) -o $$@ $$(filter %.o %.a,$$^) $(CLI_LIBS) $(LDLIBS)
endef
ifdef FUZZ
$(foreach t,$(FUZZED:tests/fuzz/%.c=%),$(eval $(call fuzz_program,$t)))
fuzz-programs: $(FUZZ_PROGS)
else
fuzz-programs:
	$(MAKE) CC=clang FUZZ=1 fuzz-programs
# For the seconds of a check: they are compiled in half of the time.
short-fuzz-programs:
	$(MAKE) CC=clang FUZZ=short fuzz-programs
endif

# Also: ONLY="conf worker", FUZZFLAGS=--keep (what is new goes to tests/fuzz/corpus), --coverage
FUZZ_S ?= 180
fuzz: fuzz-programs
	tests/fuzz/run --seconds $(FUZZ_S) $(FUZZFLAGS) $(ONLY)

check: all unit-programs crashpoint-programs
	tests/run --build $O

# tests/supervisor/test_systemd.py boots a Debian root with the units in it, if systemd-root made one; it stays in build.
systemd-root: all
	tests/systemd/make-root $(abspath $(BUILD))/systemd-root $O/quredisd $O/quredis

check-systemd: systemd-root
	QUREDIS_SYSTEMD=required QUREDIS_TEST_JOBS=1 tests/run --build $O tests/supervisor/test_systemd.py tests/package/test_deb.py

# The whole suite in a root of Debian 13, made by debootstrap, against its Redis and its Valkey. The root stays in build. RELEASE=bookworm: Debian 12.
# MATRIXFLAGS=tests/promises: a part of it
check-matrix:
	tests/matrix/run $(BUILD)/matrix $(or $(RELEASE),trixie) $(MATRIXFLAGS)

# Builds, installs and uses the packages in roots of Debian 12 and 13. RELEASE=trixie: one of them; STEPS="user": a part of it
check-packages:
	STEPS="$(STEPS)" tests/package/releases $(BUILD)/packages $(RELEASE)

# A line for each server and each way to reach it. REACHFLAGS="--reach tls --server valkey-server tests/promises/test_kill.py": a part of it
check-reach: all servers
	tests/matrix/reach --build $O $(REACHFLAGS)

valgrind: all unit-programs
	tests/valgrind/run --build $O

ttl-soak: all
	TTL_MESSAGES=$${TTL_MESSAGES:-100000} QUREDIS_TEST_JOBS=1 tests/run --build $O tests/regimes/test_ttl_traffic.py

# tests/chaos/soak says what can be scaled. A ledger that was found wrong is kept, and named.
dead-letters-soak: all
	DEAD_LETTERS_FAILURES=$${DEAD_LETTERS_FAILURES:-100000} DEAD_LETTERS_CAP=$${DEAD_LETTERS_CAP:-10000} DEAD_LETTERS_SLOW_US=$${DEAD_LETTERS_SLOW_US:-5000} \
		QUREDIS_TEST_JOBS=1 tests/run --build $O tests/promises/test_dead_letters.py -k 'cap_with_archive or killed_again'

operations-soak: all
	QUREDIS_TEST_DEAD_LETTERS=$${QUREDIS_TEST_DEAD_LETTERS:-40000} QUREDIS_TEST_JOBS=1 tests/run --build $O tests/cli/test_operations.py tests/cli/test_gentle_retry.py \
		tests/web/test_dead_letters.py -k 'test_operations or gentle or canary_and_a_rate'

schedules-soak: all
	SCHEDULES_SECONDS=$${SCHEDULES_SECONDS:-600} QUREDIS_TEST_JOBS=1 tests/run --build $O tests/promises/test_schedules_soak.py

emit-soak: all
	EMIT_SOAK_LEAVES=$${EMIT_SOAK_LEAVES:-100000} EMIT_SOAK_KILLS=$${EMIT_SOAK_KILLS:-500} QUREDIS_TEST_JOBS=1 tests/run --build $O tests/promises/test_emit_soak.py

seats-soak: all
	SEATS_SECONDS=$${SEATS_SECONDS:-600} QUREDIS_TEST_JOBS=1 tests/run --build $O tests/promises/test_seats.py -k never_six

# A million of them; no call may take 5 ms. Nobody else should use the machine.
purge-soak: all
	PURGE_MESSAGES=$${PURGE_MESSAGES:-1000000} PURGE_SLOW_US=$${PURGE_SLOW_US:-5000} QUREDIS_TEST_JOBS=1 tests/run --build $O tests/sweeper/test_purge.py

functions: all
	FUNCTIONS_SECONDS=$${FUNCTIONS_SECONDS:-60} QUREDIS_TEST_JOBS=1 tests/run --build $O tests/functions/test_bad_messages.py

soak: all
	QUREDIS_BUILD=$O tests/chaos/soak

soak-rollback: all
	QUREDIS_BUILD=$O tests/chaos/soak rollback

soak-failover: all
	QUREDIS_BUILD=$O tests/chaos/soak failover

soak-cluster: all
	QUREDIS_BUILD=$O tests/chaos/soak cluster

episodes: all
	QUREDIS_BUILD=$O tests/episodes/run $(EPISODESFLAGS)

soak-large: all
	QUREDIS_BUILD=$O tests/chaos/soak large

# Every system call of every process is a crash point: docs/crashpoints.md. A sample of it is in check.
crashpoints: all crashpoint-programs
	QUREDIS_BUILD=$O tests/crashpoints/crashpoints $(if $(ONLY),--only '$(ONLY)') $(CRASHPOINTSFLAGS)

# tests/faults/faults says what a point is, and how to go through some of them again.
faults: all
	QUREDIS_BUILD=$O tests/faults/faults $(FAULTSFLAGS)

model:
	tests/model/run --build $(BUILD)/model

# Each file of tests/mutants is a mistake that the tests must see. MUTANTS="one another": only these
mutants: all unit-programs crashpoint-programs
	tests/mutants/run --build $O $(MUTANTS)

demo: all
	etc/demo/run $(DEMOFLAGS)

# ---- speed --------------------------------------------------------------------------------------

# Ratios within one run; docs/performance.md says how to read them. Nobody else should use the machine.
bench: all
	QUREDIS_BUILD=$O tests/bench/bench $(if $(ONLY),--only $(ONLY)) --json $(BUILD)/bench.json --svg $(BUILD)/bench.svg $(BENCHFLAGS)

# What changed since another tree, which is built: make bench-compare BEFORE=../before
bench-compare: all
	QUREDIS_BUILD=$O tests/bench/bench --before $(BEFORE) $(if $(ONLY),--only $(ONLY)) --json $(BUILD)/bench-compare.json $(BENCHFLAGS)

# Other programs in the same rounds. The run names those that are not installed, with the command that installs them, and skips their rows.
# npm packages go to build/peers.
bench-peers: all
	$(MAKE) bench BENCHFLAGS="--peers $(BENCHFLAGS)"

# ---- lint ---------------------------------------------------------------------------------------

# Warnings of the compiler as errors, and what cppcheck, shellcheck and mandoc say.
lint:
	$(MAKE) WERROR=1 BUILD=$(BUILD)/lint all unit-programs
	tests/run --build $(BUILD)/lint/$(MODE) tests/tree/test_lint.py

# ---- install ------------------------------------------------------------------------------------

MAN   = $(wildcard man/*.[1-9])
RUNTIMES = $(wildcard etc/runtimes/*)
UNITS = $(wildcard etc/systemd/*.service etc/systemd/*.socket)
# As they lie here, so that their links hold.
DOCS  = README.md SECURITY.md etc/systemd/quredisd-handlers.conf CHANGELOG.md LICENSE etc/quredis.conf $(wildcard etc/prometheus/*.yml etc/grafana/*.json etc/kubernetes/*.yaml docs/*.md docs/*.svg docs/*.png etc/handlers/*)
# Files for init systems and logrotate name paths of the installation.
INITS = $(sort $(shell find etc/init etc/logrotate -type f))
DOCDIRS = docs etc etc/grafana etc/kubernetes etc/prometheus etc/systemd etc/handlers $(sort $(patsubst %/,%,$(dir $(INITS))))
BASH_COMPLETION = $(completions)/bash-completion/completions/quredis
FISH_COMPLETION = $(completions)/fish/vendor_completions.d/quredis.fish
ZSH_COMPLETION  = $(zshdir)/_quredis

PROGRAM_PATHS = 's,/usr/local/sbin/,$(sbindir)/,g; s,/usr/local/bin/,$(bindir)/,g; s,/etc/quredis/,$(sysconfdir)/quredis/,g'

# Of the paths in the manuals, those that an installation can move.
MANUAL_PATHS = 's,/etc/quredis$$,$(sysconfdir)/quredis,; s,/etc/quredis/,$(sysconfdir)/quredis/,g; s,/usr/local/share/doc/quredis,$(docdir),g; s,/usr/local/libexec/quredis,$(libexecdir)/quredis,g'

# A configuration that is already there is never overwritten.
install: $O/quredisd $O/quredis
	$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(sbindir) $(DOCDIRS:%=$(DESTDIR)$(docdir)/%) \
		$(DESTDIR)$(sysconfdir)/quredis/conf.d $(DESTDIR)$(libexecdir)/quredis
	$(INSTALL) -m 755 $O/quredisd $(DESTDIR)$(sbindir)/quredisd
	$(INSTALL) -m 755 $O/quredis $(DESTDIR)$(bindir)/quredis
	$(INSTALL) -m 755 $(RUNTIMES) $(DESTDIR)$(libexecdir)/quredis
	@test -e $(DESTDIR)$(sysconfdir)/quredis/quredis.conf || \
		$(INSTALL) -m 644 etc/quredis.conf $(DESTDIR)$(sysconfdir)/quredis/quredis.conf
	@for m in $(MAN); do s=$${m##*.}; $(INSTALL) -d $(DESTDIR)$(mandir)/man$$s && \
		sed $(MANUAL_PATHS) $$m >$O/page.tmp && \
		$(INSTALL) -m 644 $O/page.tmp $(DESTDIR)$(mandir)/man$$s/$${m##*/} || exit 1; done; rm -f $O/page.tmp
	$(INSTALL) -d $(DESTDIR)$(unitdir)
	@for u in $(UNITS); do sed $(PROGRAM_PATHS) $$u >$O/unit.tmp && \
		$(INSTALL) -m 644 $O/unit.tmp $(DESTDIR)$(unitdir)/$${u##*/} || exit 1; done; rm -f $O/unit.tmp
	$(INSTALL) -d $(dir $(DESTDIR)$(BASH_COMPLETION) $(DESTDIR)$(FISH_COMPLETION) $(DESTDIR)$(ZSH_COMPLETION))
	$O/quredis completion bash >$(DESTDIR)$(BASH_COMPLETION)
	$O/quredis completion fish >$(DESTDIR)$(FISH_COMPLETION)
	$O/quredis completion zsh >$(DESTDIR)$(ZSH_COMPLETION)
	@for d in $(DOCS); do test -x $$d && mode=755 || mode=644; \
		$(INSTALL) -m $$mode $$d $(DESTDIR)$(docdir)/$$d || exit 1; done
	@for d in $(INITS); do test -x $$d && mode=755 || mode=644; \
		sed $(PROGRAM_PATHS) $$d >$O/init.tmp && $(INSTALL) -m $$mode $O/init.tmp $(DESTDIR)$(docdir)/$$d || exit 1; done; rm -f $O/init.tmp

# What an administrator wrote stays: the configuration directory is removed only if it is empty.
uninstall:
	rm -f $(DESTDIR)$(sbindir)/quredisd $(DESTDIR)$(bindir)/quredis
	rm -f $(RUNTIMES:etc/runtimes/%=$(DESTDIR)$(libexecdir)/quredis/%)
	rm -f $(DESTDIR)$(BASH_COMPLETION) $(DESTDIR)$(FISH_COMPLETION) $(DESTDIR)$(ZSH_COMPLETION)
	for m in $(notdir $(MAN)); do rm -f $(DESTDIR)$(mandir)/man$${m##*.}/$$m; done
	for u in $(notdir $(UNITS)); do rm -f $(DESTDIR)$(unitdir)/$$u; done
	rm -f $(DOCS:%=$(DESTDIR)$(docdir)/%) $(INITS:%=$(DESTDIR)$(docdir)/%)
	cmp -s etc/quredis.conf $(DESTDIR)$(sysconfdir)/quredis/quredis.conf && \
		rm -f $(DESTDIR)$(sysconfdir)/quredis/quredis.conf || :
	-rmdir $(DESTDIR)$(docdir)/etc/init/*/* $(DESTDIR)$(docdir)/etc/init/* $(DESTDIR)$(docdir)/etc/* $(DESTDIR)$(docdir)/* $(DESTDIR)$(docdir) $(DESTDIR)$(sysconfdir)/quredis/conf.d $(DESTDIR)$(sysconfdir)/quredis \
		$(DESTDIR)$(libexecdir)/quredis 2>/dev/null

clean:
	rm -rf $(BUILD)

# ---- release ------------------------------------------------------------------------------------

NAME = quredis-$(VERSION)

# What is committed, nothing else; the same commit gives the same bytes.
dist:
	@mkdir -p $(BUILD)
	git -c tar.umask=0022 archive --format=tar --prefix=$(NAME)/ HEAD | gzip -9n >$(BUILD)/$(NAME).tar.gz
	@echo $(BUILD)/$(NAME).tar.gz

# The tarball builds, tests, installs and uninstalls without leaving a file.
distcheck: dist
	rm -rf $(BUILD)/distcheck && mkdir -p $(BUILD)/distcheck
	tar -xzf $(BUILD)/$(NAME).tar.gz -C $(BUILD)/distcheck
	cd $(BUILD)/distcheck/$(NAME) && $(MAKE) BUILD=build WERROR=1 check && \
		$(MAKE) BUILD=build DESTDIR=$(abspath $(BUILD))/distcheck/root install && \
		$(MAKE) BUILD=build DESTDIR=$(abspath $(BUILD))/distcheck/root uninstall
	@left=$$(find $(BUILD)/distcheck/root ! -type d); test -z "$$left" || { echo "left behind: $$left"; exit 1; }
	rm -rf $(BUILD)/distcheck
	@echo "distcheck: $(BUILD)/$(NAME).tar.gz is good"

# Debian packages in build/deb/, made from a copy of this tree. They are made again when a file is newer than they are.
DEB        = $(BUILD)/deb
DEB_SOURCE = $(DEB)/$(NAME)
DEB_NOT    = $(sort build $(notdir $(BUILD))) .git .pytest_cache .hypothesis __pycache__
deb:
	@mkdir -p $(DEB)
	@test -e $(DEB)/made && test -z "$$(find . -mindepth 1 \( -false $(DEB_NOT:%=-o -name %) \) -prune -o -newer $(DEB)/made -print -quit)" || $(MAKE) -s deb-anew
	@ls $(DEB)/*.deb

deb-anew:
	rm -rf $(DEB) && mkdir -p $(DEB_SOURCE) && touch $(DEB)/begun
	tar -c $(DEB_NOT:%=--exclude=%) . | tar -x -C $(DEB_SOURCE)
	tar -cz --exclude=$(NAME)/debian -f $(DEB)/quredis_$(VERSION).orig.tar.gz -C $(DEB) $(NAME)
	cd $(DEB_SOURCE) && env -i PATH="$$PATH" HOME="$$HOME" $(if $(CCACHE_DIR),CCACHE_DIR='$(CCACHE_DIR)') \
		DEB_BUILD_OPTIONS=nocheck DEB_BUILD_PROFILES=nocheck dpkg-buildpackage -us -uc >../log 2>&1 || { tail -n 30 ../log >&2; exit 1; }
	mv $(DEB)/begun $(DEB)/made

release-check:
	tests/release/check $(BUILD)/release-check $(STEPS)

# The libraries are those of this machine.
sbom: $O/quredisd $O/quredis
	tests/release/sbom $^ >$(BUILD)/$(NAME).spdx.json
	@echo $(BUILD)/$(NAME).spdx.json

# The spec of RPM packages, built and read with the rpm of this machine. On Debian that makes no package: tests/package/rpm-check says why. Again only when a file is newer.
RPM = $(BUILD)/rpm
rpm-check:
	@if test -e $(RPM)/verdict -a -z "$$(find . -mindepth 1 \( -false $(DEB_NOT:%=-o -name %) \) -prune -o -newer $(RPM)/verdict -type f -print -quit)"; \
		then cat $(RPM)/verdict; else tests/package/rpm-check $(RPM); fi

FORCE:
.PHONY: check-packages release-check rpm-check sbom all axe inits kubernetes-models deb deb-anew episodes pictures other-version check check-matrix check-reach check-systemd systemd-root unit unit-programs promtool servers crashpoints crashpoint-programs faults functions fuzz fuzz-programs short-fuzz-programs model mutants soak soak-cluster soak-failover soak-large soak-rollback valgrind purge-soak ttl-soak demo bench bench-compare bench-peers lint install uninstall clean dist distcheck FORCE dead-letters-soak operations-soak schedules-soak seats-soak emit-soak layers print-folders writers
.DELETE_ON_ERROR:
.SECONDARY:

-include $(patsubst %.o,%.d,$(patsubst %.c,$O/%.o,$(wildcard $(FOLDERS:%=%/*.c) $(FOLDERS:%=%/*/*.c) tests/unit/*.c tests/unit/*/*.c tests/fuzz/*.c)))
