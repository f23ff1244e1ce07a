<?php
// The function that does nothing, and the handler for exec mode that calls it.

function handle($message)
{
}

if ($argv[0] === __FILE__) {
    handle(file_get_contents("php://stdin"));
}
