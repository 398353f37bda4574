"""Runs the checks of a client, each a function, and tells the outcome of each as a line of JSON."""
import json
import os
import sys
import traceback

BASE = os.environ["SLUICE_BASE_URL"]
KEY = os.environ["SLUICE_KEY"]
MODEL = os.environ["SLUICE_MODEL"]
MESSAGES = [{"role": "user", "content": "Hello there"}]
# The same answer every time.
SEEDED = {"seed": 1, "max_tokens": 24}
# Seconds of work.
LONG = {"max_tokens": 900, "extra_body": {"ignore_eos": True}}


def run(*checks):
    for check in checks:
        error = None
        try:
            check()
        except Exception:
            error = traceback.format_exc()
        print("CHECK " + json.dumps({"name": check.__name__, "error": error}), flush=True)
    sys.exit(0)


def raises(kind, action):
    try:
        action()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")
