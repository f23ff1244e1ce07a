#!/usr/bin/perl
# A persistent handler: appends every message to the file that is its first argument. See quredis-handler(7).
use strict;
use warnings;
binmode STDIN;
$| = 1;
open(my $file, ">>:raw", $ARGV[0]) or die "$ARGV[0]: $!\n";
while (my $head = <STDIN>) {                            # JOB serial attempt bytes [key=value ...]
    my (undef, $serial, undef, $size) = split " ", $head;
    (read(STDIN, my $message, $size + 1) // 0) == $size + 1 or last;
    chop $message;                                      # its newline
    if ($size == 0) { print "REJECT $serial it is empty\n" }
    elsif (defined syswrite($file, $message)) { print "OK $serial\n" }
    else { print "RETRY $serial 10s $!\n" }
}
