#!/usr/bin/python3
# An exec handler that sends a mail: one process for each message, with reply_fd = 3. See quredis-handler(7), Replies.
import json
import os
import smtplib
import sys

SERVER = os.environ.get("MAIL_SERVER", "localhost")     # of the queue: env = ["MAIL_SERVER=smtp.example.org"]
replies = open(int(os.environ["QUREDIS_REPLY_FD"]), "w", buffering=1)


def reply(verb, error):
    print(verb, str(error).replace("\n", " "), file=replies)
    sys.exit(1)                                         # any status: the reply decides


try:
    mail = json.load(sys.stdin.buffer)
    to, text = mail["to"], mail["text"]
except (ValueError, KeyError, TypeError) as e:
    reply("REJECT class=BadMail", repr(e))              # trying again would not help

try:
    replies.write("PROGRESS 10 connecting\n")
    with smtplib.SMTP(SERVER, timeout=20) as smtp:
        smtp.sendmail("shop@example.org", [to],
                      f"Message-ID: <{os.environ['QUREDIS_ID']}@example.org>\nTo: {to}\n\n{text}\n".encode())
except smtplib.SMTPRecipientsRefused as e:
    reply("FAIL class=RecipientRefused", e)
except (OSError, smtplib.SMTPException) as e:
    reply(f"RETRY 30s class={type(e).__name__}", e)     # class=SMTPServerDisconnected, class=ConnectionRefusedError, ...
