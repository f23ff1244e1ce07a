#!/usr/bin/php
<?php
// A persistent handler: appends every message to the file that is its first argument. See quredis-handler(7).
$file = fopen($argv[1], "ab") or exit(1);
while (($head = fgets(STDIN)) !== false) {              // JOB serial attempt bytes [key=value ...]
    [, $serial, , $size] = explode(" ", rtrim($head));
    $message = stream_get_contents(STDIN, $size + 1);   // and its newline
    if (strlen($message) <= $size)
        break;
    if ($size == 0)
        echo "REJECT $serial it is empty\n";
    else
        echo @fwrite($file, substr($message, 0, -1)) == $size ? "OK $serial\n" : "RETRY $serial 10s not written\n";
}
