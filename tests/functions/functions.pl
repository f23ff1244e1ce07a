# The same as functions.py.
use strict;
use warnings;
use Digest::SHA qw(sha1_hex);
use POSIX ();

sub crash {
    my ($message) = @_;
    kill "SEGV", $$ if $message eq "segv";
    kill "KILL", $$ if $message eq "kill";
    POSIX::_exit(0) if $message eq "quick";
    exit $1 if $message =~ /^exit ([03])$/;
}

sub break_down {
    my ($message) = @_;
    my @kept;
    if ($message eq "allocate") {
        while (1) { push @kept, "x" x (8 << 20) }
    }
    if ($message =~ /^(?:good )?hang\z/) {
        while (1) { select undef, undef, undef, 0.05 }
    }
    crypt $message, '$6$rounds=999999999$salt' if $message eq "hang in C";       # Perl looks for signals after it
}

sub note {
    my ($message) = @_;
    return if $message !~ /^good/;
    open my $ledger, ">>", $ENV{LEDGER} or die "$ENV{LEDGER}: $!";
    syswrite $ledger, "$message\n";
}

sub speak {
    my ($message) = @_;
    if ($message eq "print") {
        print "OK 7\n";
        POSIX::write(1, "OK 8\n", 5);
        system "echo OK 9";
    }
    system "cat; test ! -e /proc/self/fd/3 || echo inherited" if $message eq "cat";
    if ($message eq "daemon" && !fork) { exec "setsid", "sleep", "77" }
    if ($message eq "linger" && !fork) { sleep 77 }
    die "of a fork" if $message eq "fork" && !fork;
}

sub decide {
    my ($message, $job) = @_;
    $job->retry(after => 0.25, reason => "later\nnow", error_class => "SMTP") if $message eq "retry";
    $job->retry(after => -1) if $message eq "negative";
    $job->hold(after => 0.25, reason => "429\nnow") if $message eq "hold";
    $job->hold if $message eq "holds";
    $job->hold(after => -1) if $message eq "below";
    $job->reject("no\0thing", error_class => "Bad Mail") if $message eq "reject";
    $job->fail("later") if $message eq "fail";
    eval { $job->reject("no", error_class => "X") } if $message eq "rescue";
    if ($message eq "swallow") {
        eval { $job->reject("no", error_class => "X") };
        $job->fail("a second verdict");
    }
    die join "\n", map { "line $_" } 1 .. 300 if $message eq "verbose";
    die "bad\nthing\0here OK 1" if $message eq "raise";
}

package Finally { sub DESTROY { print "finally ran\n" } }

sub wait_for {
    my ($message, $job) = @_;
    my ($file) = $message =~ /^wait ?(.*)/ or return;
    my $guard = bless {}, "Finally";
    $job->beat;
    $job->progress(140, "half\nway");
    select undef, undef, undef, 0.01 until -e ($file || "/none");
}

sub handle {
    my ($message, $job) = @_;
    crash($message);
    note($message);
    break_down($message);
    speak($message);
    decide($message, $job);
    wait_for($message, $job);
    $job->reject(join " ", $job->queue, $job->id, $job->request_id, $job->traceparent, $job->schedule, $job->scheduled_at, $job->attempt, $job->max_attempts,
        $job->redelivered,
        sprintf("%.3f", $job->deadline), $ENV{QUREDIS_REPLY_FD} // "undef") if $message eq "job";
    $job->reject(join " ", length $message, sha1_hex($message), $job->id) if $message =~ /^count/;
}

sub after_fork { print "after fork\n" }

sub decoded {
    my ($message, $job) = @_;
    $job->reject(ref $message ? $message->{key} : $message);
}

use feature "signatures";
no warnings "experimental::signatures";

sub one ($message) { print "one ran\n" }
sub three ($message, $job, $other) { }
sub none () { }

1;
