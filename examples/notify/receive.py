#!/usr/bin/env python3
"""Receives beam's webhooks on loopback and checks them: python3 receive.py PORT, with the secret in $BEAM_HOOK_SECRET.

It refuses what is not signed with the secret, what is older than five minutes, and what it has seen before.
"""

import hmac
import http.server
import json
import os
import sys
import time

SECRET = os.environ["BEAM_HOOK_SECRET"].encode()
OLDEST_S = 300
seen: set[str] = set()


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers["Content-Length"]), 1 << 20))
        stamp = self.headers.get("Beam-Timestamp", "")
        expected = "sha256=" + hmac.new(SECRET, stamp.encode() + b"." + body, "sha256").hexdigest()
        if not hmac.compare_digest(expected, self.headers.get("Beam-Signature", "")):
            self.answer(401)
        elif abs(time.time() - int(stamp)) > OLDEST_S:
            self.answer(400)
        else:
            told = json.loads(body)
            if told["id"] not in seen:  # the same one may come again
                seen.add(told["id"])
                print(told["event"], told["agent"], told["text"], flush=True)
            self.answer(204)

    def answer(self, code: int) -> None:
        self.send_response(code)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(server.server_port, flush=True)
    server.serve_forever()
