"""The driver's side of the protocol (bench/peers/protocol.ts), for engines that run in Python."""

import json
import os
import sys
import time
import traceback


def drive(description, run):
    """Serves requests until the input ends. run(prompts, new_tokens, now) returns (tokens, times) of each sequence."""
    out = os.fdopen(3, "w")

    def send(message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    send({"kind": "ready", "description": description})
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        try:
            tokens, times = run(request["prompts"], request["newTokens"], lambda: time.perf_counter() - start)
            send({"kind": "result", "tokens": tokens, "times": times})
        except Exception as error:
            traceback.print_exc()
            send({"kind": "error", "message": f"{type(error).__name__}: {error}"})
