"""Enqueues notifications over pushpacer's HTTP API. Needs nothing but Python 3.

    PUSHPACER_TOKEN=pp_… python3 examples/producer.py
"""

import json
import os
import urllib.error
import urllib.request

URL = os.environ.get("PUSHPACER_URL", "http://127.0.0.1:8620")
TOKEN = os.environ["PUSHPACER_TOKEN"]


def enqueue(notifications, idempotency_key):
    """Safe to call again with the same key after any failure: nothing is added twice."""
    request = urllib.request.Request(
        f"{URL}/v1/notifications",
        data=json.dumps(notifications).encode(),
        headers={
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        if error.code in (429, 503):
            raise RuntimeError(f"try again in {error.headers['Retry-After']} s: {problem['detail']}") from error
        raise ValueError(f"{error.code}: {problem}") from error


if __name__ == "__main__":
    answer = enqueue(
        [
            {
                "recipientId": f"teacher-{number}",
                "devices": [{"platform": "fcm", "token": f"python-example-token-{number}-0123456789"}],
                "alert": {"title": "Room 12", "body": "Field trip forms are due"},
            }
            for number in range(3)
        ],
        idempotency_key=os.environ.get("KEY", "field-trip-2026-11-21"),
    )
    print(json.dumps({"added": answer["added"], "ids": [each.get("id") for each in answer["results"]]}))
