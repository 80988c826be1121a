"""Sends e-mails in slots of pushpacer's limiter, so that they and the push alerts of a person share one limit.

Needs nothing but Python 3. The token needs the scope `limit`.

    PUSHPACER_TOKEN=pp_… python3 examples/email-slots.py teacher-42 email-1 email-2
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("PUSHPACER_URL", "http://127.0.0.1:8620")
TOKEN = os.environ["PUSHPACER_TOKEN"]


def post(recipient, what, fields):
    """The status and the JSON of the answer."""
    request = urllib.request.Request(
        f"{URL}/v1/recipients/{urllib.parse.quote(recipient, safe='')}/{what}",
        data=json.dumps(fields).encode(),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def send_in_slot(recipient, email_id, send, max_wait="10m"):
    """Sends at the e-mail's slot, and answers when that was. None if it was admitted before, or has no slot within `max_wait`."""
    ask = {"id": email_id, "category": "email", "wait": True, "maxWait": max_wait}
    while True:
        status, answer = post(recipient, "admit", ask)
        if status == 200 and answer["repeated"]:
            return None  # it was admitted before, so it may have been sent
        if status == 200:
            break
        if answer.get("result") == "reserved":
            time.sleep(answer["againMs"] / 1000)  # the slot is kept meanwhile
        elif answer.get("result") == "refused":
            return None
        elif status == 503:
            time.sleep(2)
            ask["unsent"] = True  # it may have got a slot, but it was not sent: the same id takes no second slot
        else:
            raise ValueError(f"{status}: {answer}")
    try:
        send()
    except Exception:
        post(recipient, "refund", {"id": email_id, "category": "email"})  # nobody got it, so it must not count
        raise
    return answer["at"]


if __name__ == "__main__":
    person, *ids = sys.argv[1:]
    for each in ids:
        sent = []
        at = send_in_slot(person, each, lambda: sent.append(time.time() * 1000))  # smtplib, in place of this
        print(json.dumps({"id": each, "at": at, "sentAt": sent[0] if sent else None}), flush=True)
