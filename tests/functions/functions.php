<?php
// The same as functions.py.

$global = "set";

function crash($message)
{
    match ($message) {
        "segv" => posix_kill(getmypid(), SIGSEGV),
        "kill" => posix_kill(getmypid(), SIGKILL),
        "quick" => FFI::cdef("void _exit(int);")->_exit(0),
        "exit 0" => exit(0),
        "exit 3" => exit(3),
        default => null,
    };
}

function break_down($message)
{
    $kept = [];
    while ($message === "allocate") {
        $kept[] = str_repeat("x", 8 << 20);
    }
    while ($message === "hang" || $message === "good hang") {
        usleep(50000);
    }
    if ($message === "hang in C") {         // no signal ends the wait
        $library = FFI::cdef("int pthread_mutex_lock(void *);");
        $mutex = FFI::new("char[128]");
        $library->pthread_mutex_lock(FFI::addr($mutex));
        $library->pthread_mutex_lock(FFI::addr($mutex));
    }
}

function note($message)
{
    if (str_starts_with($message, "good")) {
        file_put_contents(getenv("LEDGER"), "$message\n", FILE_APPEND);
    }
}

function speak($message)
{
    if ($message === "print") {
        print "OK 7\n";
        fwrite(fopen("php://fd/1", "wb"), "OK 8\n");
        system("echo OK 9");
    }
    if ($message === "cat") {
        passthru("cat; for fd in 3 4 5 6 7 8; do test ! -e /proc/self/fd/\$fd || readlink /proc/self/fd/\$fd | sed -n 's/^\\(pipe\\|socket\\).*/inherited/p'; done");
    }
    if ($message === "daemon" && pcntl_fork() === 0) {
        pcntl_exec("/usr/bin/setsid", ["sleep", "77"]);
    }
    if ($message === "linger" && pcntl_fork() === 0) {
        sleep(77);
    }
    if ($message === "fork" && pcntl_fork() === 0) {
        throw new InvalidArgumentException("of a fork");
    }
}

function decide($message, $job)
{
    if ($message === "retry") {
        $job->retry(after: 0.25, reason: "later\nnow", errorClass: "SMTP");
    }
    if ($message === "negative") {
        $job->retry(after: -1);
    }
    if ($message === "hold") {
        $job->hold(after: 0.25, reason: "429\nnow");
    }
    if ($message === "holds") {
        try {
            $job->hold();
        } catch (\Exception) {
            echo "swallowed\n";
        }
    }
    if ($message === "below") {
        $job->hold(after: -1);
    }
    if ($message === "reject") {
        $job->reject("no\0thing", errorClass: "Bad Mail");
    }
    if ($message === "fail") {
        $job->fail("later");
    }
    if ($message === "rescue") {
        try {
            $job->reject("no", errorClass: "X");
        } catch (Exception $e) {
            print "swallowed\n";
        }
    }
    if ($message === "swallow") {
        try {
            $job->reject("no", errorClass: "X");
        } catch (Throwable $e) {
            $job->fail("a second verdict");
        }
    }
    if ($message === "verbose") {
        throw new InvalidArgumentException(implode("\n", array_map(fn($n) => "line $n", range(1, 300))));
    }
    if ($message === "raise") {
        throw new InvalidArgumentException("bad\nthing\0here OK 1");
    }
}

function wait($message, $job)
{
    if (!str_starts_with($message, "wait")) {
        return;
    }
    try {
        $job->beat();
        $job->progress(140, "half\nway");
        while (!file_exists(substr($message, 5) ?: "/none")) {
            usleep(10000);
            clearstatcache();
        }
    } finally {
        print "finally ran\n";
    }
}

function handle($message, $job)
{
    global $global;
    if ($global !== "set") {
        throw new Exception("a global variable is missing");
    }
    crash($message);
    note($message);
    break_down($message);
    speak($message);
    decide($message, $job);
    wait($message, $job);
    if ($message === "job") {
        $job->reject("$job->queue $job->id $job->requestId $job->traceparent $job->schedule $job->scheduledAt $job->attempt $job->maxAttempts " .
            "$job->redelivered " .
            sprintf("%.3f ", $job->deadline) . var_export(getenv("QUREDIS_REPLY_FD"), true));
    }
    if (str_starts_with($message, "count")) {
        $job->reject(strlen($message) . " " . sha1($message) . " $job->id");
    }
}

function one($message)
{
    print "one ran\n";
}

function three($message, $job, $other)
{
}

function none()
{
}

function generate($message)
{
    yield $message;
}

function decoded($message, $job)
{
    $job->reject(is_string($message) ? $message : $message["key"]);
}

function after_fork()
{
    print "after fork\n";
}
