"""Descriptions of the records by which the answer says what became of a session."""

from __future__ import annotations

SESSION = {
    "SessionResult": {
        "id": "Name of the session: its file, and a hash of its entries.",
        "folder": "Its folder, relative to the project.",
        "rows": "A row for each entry, in their order.",
        "why": "Why it is not complete; empty if it is.",
        "billed_minutes": "For how long the hosts were there that it rented, from the request on.",
        "billed_cost": "What that costs at most; null without a price.",
        "schema": "Version of the format of session.json.",
    },
    "SessionRow": {
        "name": "Name of the entry.",
        "task": "Its task.",
        "outcome": "How it ended; null for one that is not complete.",
        "exit_code": "Exit code of its task; null for one that is not complete.",
        "summary": "The outcome in one sentence, or why it is not complete.",
        "remote": "Where it was carried out last; empty: here.",
        "runs": "Its runs.",
        "cases": "Its steps here, and the stages of its runs.",
        "minutes": "How long it held a host.",
        "cost": "What that cost; null without a price.",
    },
    "SessionCase": {
        "name": "Name of the step or stage.",
        "outcome": "How it ended.",
        "summary": "The outcome in one sentence.",
        "seconds": "How long it took.",
    },
}
