"""The figures of the statistics by plain SQL over the events of a log, in the words in which they are written."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from foregate.schemas.codes import CODES, GATES

VIEWS = """
CREATE TEMP TABLE of AS SELECT session, seq, text ->> '$.kind' AS kind, text ->> '$.time' AS time,
  text -> '$.body' AS body FROM main.events WHERE session GLOB :sessions;
CREATE TEMP TABLE judged AS SELECT session, seq, body -> '$.judgement' AS judgement,
  body -> '$.turn.answers' AS answers, body -> '$.turn.voided' AS voided
  FROM of WHERE kind = 'turn_judged' AND coalesce(body ->> '$.early', 0) = 0;
CREATE TEMP TABLE verdicts AS SELECT session, seq, v.key AS place, v.value ->> '$.call' AS call,
  v.value ->> '$.digest' AS digest, v.value ->> '$.gate' AS gate, v.value ->> '$.standing' AS standing,
  v.value ->> '$.ruling.code' AS code FROM judged, json_each(judgement, '$.verdicts') AS v;
CREATE TEMP TABLE told AS SELECT session, seq, d.key AS place, d.value ->> '$.gate' AS gate,
  d.value ->> '$.code' AS code, coalesce(d.value ->> '$.mode', '') = 'shadow' AS shadow,
  coalesce(json_type(d.value, '$.consequence'), 'null') != 'null' AS follows, d.value -> '$.rules' AS rules,
  d.value -> '$.rulings' AS rulings FROM judged, json_each(judgement, '$.decisions') AS d;
CREATE TEMP TABLE rulings AS SELECT session, seq, place, r.key AS number, r.value ->> '$.call' AS call,
  r.value ->> '$.code' AS code, coalesce(r.value ->> '$.standing', 'allow') AS standing
  FROM told, json_each(told.rulings) AS r;
-- Earlier versions wrote why some calls were stopped into their verdicts alone.
CREATE TEMP TABLE added AS SELECT v.*, (SELECT min(t.place) FROM told t WHERE (t.session, t.seq, t.gate)
  = (v.session, v.seq, v.gate)) AS row FROM verdicts v WHERE standing != 'allow' AND NOT EXISTS (SELECT 1 FROM rulings r
  JOIN told t USING (session, seq, place) WHERE (r.session, r.seq, r.call) = (v.session, v.seq, v.call)
  AND NOT t.shadow AND r.standing != 'allow');
INSERT INTO told SELECT session, seq, 1000 + min(place), gate, code, 0, 0, NULL, NULL FROM added WHERE row IS NULL
  GROUP BY session, seq, gate;
INSERT INTO rulings SELECT a.session, a.seq, t.place, 1000 + a.place, a.call, a.code, a.standing FROM added a
  JOIN told t ON (t.session, t.seq, t.gate) = (a.session, a.seq, a.gate) AND t.place = coalesce(a.row, t.place);
CREATE TEMP TABLE leads AS SELECT session, seq, place, r.standing,
  row_number() OVER (PARTITION BY session, seq, place ORDER BY r.code != t.code, number) AS rank
  FROM rulings r JOIN told t USING (session, seq, place);
CREATE TEMP TABLE rows AS SELECT t.*, coalesce(l.standing, 'allow') AS standing, follows
  OR t.code = 'verification_pending' OR EXISTS (SELECT 1 FROM rulings r WHERE (r.session, r.seq, r.place)
  = (t.session, t.seq, t.place) AND r.standing != 'allow') AS fired FROM told t
  LEFT JOIN leads l ON (l.session, l.seq, l.place, l.rank) = (t.session, t.seq, t.place, 1);
CREATE TEMP TABLE answers AS SELECT session, seq, time, body -> '$.answer' AS answer, body ->> '$.answer.gate' AS gate,
  body ->> '$.answer.who' AS who, body ->> '$.answer.value.choice' AS choice, body -> '$.grants' AS grants,
  coalesce(body ->> '$.model_calls', 1) AS requests,
  coalesce(body ->> '$.usage.input_tokens', 0) + coalesce(body ->> '$.usage.output_tokens', 0) AS tokens
  FROM of WHERE kind = 'need_answered' AND (body ->> '$.answer.who' != 'person'
  OR json_type(body, '$.answer.value') = 'object');
CREATE TEMP TABLE asked AS SELECT session, seq, time, body ->> '$.need.gate' AS gate, body ->> '$.need.who' AS who
  FROM of WHERE kind = 'need_raised';
CREATE TEMP TABLE yes AS SELECT session, seq FROM answers WHERE gate = 'approval'
  AND (choice IN ('yes', 'grant', 'project', 'wider') OR EXISTS (SELECT 1 FROM json_each(answer, '$.value.calls')
  WHERE value IN ('yes', 'grant', 'project', 'wider')));
-- How long an answer took: since the last question to the same one, if no other answer came between.
CREATE TEMP TABLE waits AS SELECT a.*, round(86400000 * (julianday(a.time) - julianday(q.time))) AS took FROM answers a
  JOIN asked q ON (q.session, q.who) = (a.session, a.who) AND q.seq = (SELECT max(seq) FROM asked o
  WHERE (o.session, o.who) = (a.session, a.who) AND o.seq < a.seq)
  AND NOT EXISTS (SELECT 1 FROM answers o WHERE (o.session, o.who) = (a.session, a.who) AND o.seq > q.seq
  AND o.seq < a.seq);
CREATE TEMP TABLE wanted AS SELECT session, seq AS answer, d.value AS digest, '' AS gate
  FROM answers JOIN yes USING (session, seq), json_each(answer, '$.digests') AS d
  UNION ALL SELECT session, seq, g.value ->> '$.digest', g.value ->> '$.gate' FROM answers, json_each(grants) AS g
  WHERE answers.gate != 'approval';
CREATE TEMP TABLE ran_all_the_same AS SELECT v.session, v.seq, coalesce(nullif((SELECT w.gate FROM wanted w
  JOIN json_each(j.answers) AS given ON given.value = w.answer WHERE (w.session, w.digest) = (v.session, v.digest)
  ORDER BY given.key DESC LIMIT 1), ''), (SELECT t.gate FROM told t JOIN rulings r USING (session, seq, place)
  WHERE (t.session, t.seq, r.call, r.standing, t.shadow) = (v.session, v.seq, v.call, 'ask', 0) ORDER BY t.place),
  'approval') AS gate FROM verdicts v JOIN judged j USING (session, seq) WHERE v.standing = 'allow'
  AND EXISTS (SELECT 1 FROM wanted w JOIN json_each(j.answers) AS given ON given.value = w.answer
  WHERE (w.session, w.digest) = (v.session, v.digest));
CREATE TEMP TABLE numbers AS SELECT session, seq, d.key AS place, n.key AS number, n.value ->> '$.path' AS path,
  coalesce(n.value ->> '$.value', 0) >= coalesce(n.value ->> '$.bound', 0) AS reached
  FROM judged, json_each(judgement, '$.decisions') AS d, json_each(d.value, '$.numbers') AS n;
CREATE TEMP TABLE keyed AS SELECT r.*, coalesce(r.rules ->> '$[0]', '') AS rule, CASE
  WHEN code = 'outside_mandate' THEN 'mandate.mode' WHEN json_array_length(r.rules) > 0
  THEN 'rules.list.' || (r.rules ->> '$[0]') ELSE coalesce((SELECT path FROM numbers n
  WHERE (n.session, n.seq, n.place) = (r.session, r.seq, r.place) ORDER BY NOT reached, number LIMIT 1),
  CASE WHEN gate != 'prelude' AND (fired OR code = 'overridden' OR gate = 'approval' AND NOT EXISTS (
  SELECT 1 FROM rulings o JOIN told USING (session, seq, place) WHERE NOT shadow AND (o.session, o.seq, o.standing)
  = (r.session, r.seq, 'ask'))) THEN gate || '.mode' ELSE '' END) END AS key FROM rows r;
CREATE TEMP TABLE said AS SELECT k.session, k.seq, k.place, coalesce(r.number, 0) AS number, k.gate, k.rule, k.key,
  coalesce(r.standing, 'allow') AS standing, coalesce(r.code, k.code) AS code, r.call FROM keyed k
  LEFT JOIN rulings r USING (session, seq, place) WHERE NOT k.shadow;
CREATE TEMP TABLE prompts AS SELECT q.session, q.seq AS asked, q.gate, a.seq AS answered, a.choice, (SELECT max(j.seq)
  FROM judged j WHERE j.session = q.session AND (a.seq IN (SELECT value FROM json_each(j.answers))
  OR a.seq IN (SELECT value ->> '$.seq' FROM json_each(j.voided)))) AS turn,
  a.seq IS NOT NULL AND (a.choice IN ('yes', 'grant', 'project', 'wider', 'anyway')
  OR (a.session, a.seq) IN (SELECT * FROM yes)) AS yes FROM asked q LEFT JOIN answers a
  ON a.session = q.session AND a.who = 'person' AND a.seq = (SELECT min(seq) FROM (
  SELECT session, seq, who FROM answers UNION ALL SELECT session, seq, who FROM asked) o
  WHERE (o.session, o.who) = (q.session, 'person') AND o.seq > q.seq) WHERE q.who = 'person'
  UNION ALL SELECT j.session, p.seq, j.judgement ->> '$.consequence_gate', (SELECT min(seq) FROM of m
  WHERE m.session = p.session AND m.kind = 'user_message' AND m.seq > p.seq), 'words', j.seq, 0
  FROM of p JOIN judged j ON j.session = p.session AND j.seq = (SELECT max(seq) FROM judged o
  WHERE o.session = p.session AND o.seq < p.seq) WHERE p.kind = 'task_paused' AND p.body ->> '$.reason' = 'needs_input'
  AND j.judgement ->> '$.consequence.kind' = 'ask_user' AND NOT EXISTS (SELECT 1 FROM of o WHERE o.session = p.session
  AND o.kind IN ('task_paused', 'user_message') AND o.seq > j.seq AND o.seq < p.seq);
CREATE TEMP TABLE caused AS SELECT p.*, (SELECT s.rowid FROM said s WHERE (s.session, s.seq) = (p.session, p.turn)
  AND CASE WHEN p.choice = 'words' THEN s.gate = p.gate WHEN p.gate = 'approval'
  THEN s.standing = 'ask' OR s.gate = 'approval'
  ELSE s.standing IN ('hold', 'deny') OR s.code = 'overridden' END ORDER BY s.standing != 'ask', place, number LIMIT 1)
  AS cause, coalesce((SELECT s.gate FROM said s WHERE (s.session, s.seq) = (p.session, p.turn)
  AND s.standing IN ('hold', 'deny') AND (s.gate = 'approval' OR s.call IN (SELECT call FROM said o
  WHERE (o.session, o.seq) = (p.session, p.turn) AND (o.standing = 'ask'
  OR o.code IN ('approval_granted', 'overridden'))))
  ORDER BY place, number LIMIT 1), (SELECT coalesce(nullif(c.body ->> '$.gate', ''), c.body ->> '$.code') FROM of c
  JOIN verdicts v ON (v.session, v.seq, v.call, v.standing) = (p.session, p.turn, c.body ->> '$.call', 'allow')
  JOIN of raised ON (raised.session, raised.seq) = (p.session, p.asked)
  WHERE c.kind = 'call_answered' AND c.session = p.session AND c.seq > p.turn AND v.call IN (SELECT value
  FROM json_each(raised.body, '$.need.calls')) ORDER BY c.seq DESC LIMIT 1)) AS stopped FROM prompts p;
"""
GATE = """SELECT coalesce(sum(NOT shadow), 0) AS asked, coalesce(sum(NOT shadow AND fired), 0) AS fired,
  coalesce(sum(NOT shadow AND standing = 'ask'), 0) AS asked_person,
  coalesce(sum(NOT shadow AND standing = 'hold'), 0) AS held,
  coalesce(sum(NOT shadow AND standing = 'deny'), 0) AS denied,
  (SELECT count(*) FROM ran_all_the_same WHERE gate = :gate) AS overridden,
  coalesce(sum(shadow), 0) AS shadow_asked, coalesce(sum(shadow AND fired), 0) AS shadow_fired
  FROM rows WHERE gate = :gate"""
PROMPTS = """WITH raised AS (SELECT session, seq, body ->> '$.need.gate' AS gate, body ->> '$.need.code' AS code
  FROM of WHERE kind = 'need_raised'), first AS (
  SELECT q.*, coalesce((SELECT g.gate FROM gates_of_codes g WHERE g.code = q.code), q.gate) AS by FROM raised q)
SELECT coalesce(s.gate, f.by, c.gate), coalesce(s.rule, ''), CASE WHEN cause IS NOT NULL THEN coalesce(s.key, '')
  WHEN f.code = 'outside_mandate' THEN 'mandate.mode' WHEN f.code = 'asked_by_rule'
  THEN 'rules.list' WHEN f.by IN (SELECT gate FROM gates_of_codes WHERE gate != 'prelude')
  THEN f.by || '.mode' ELSE '' END, count(*), sum(yes),
  sum(answered IS NOT NULL AND NOT yes), sum(answered IS NULL), sum(yes AND turn IS NOT NULL AND stopped IS NULL),
  coalesce(group_concat(DISTINCT CASE WHEN yes THEN stopped END), '')
  FROM caused c LEFT JOIN said s ON s.rowid = c.cause
  LEFT JOIN first f ON (f.session, f.seq) = (c.session, c.asked) GROUP BY 1, 2, 3"""
RULES = """SELECT id, sum(count) FROM (
  SELECT r.value ->> '$.id' AS id, 0 AS count FROM of, json_each(body, '$.policy.rules.list') AS r
  WHERE kind IN ('session_started', 'policy_changed')
  UNION ALL SELECT r.value, 1 FROM told, json_each(told.rules) AS r) GROUP BY id"""
MEDIAN = """WITH these AS (SELECT floor((took + 500) / 1000) AS took, row_number() OVER (ORDER BY took) AS n,
  count(*) OVER () AS every FROM waits WHERE who = 'person' AND gate = 'approval')
  SELECT avg(took) FROM these WHERE n IN ((every + 1) / 2, (every + 2) / 2)"""
TOOK = "SELECT coalesce(sum(floor((took + 500) / 1000)), 0) FROM waits WHERE who = 'person' AND gate = 'approval'"
STANDING_LABELS = """WITH given AS (SELECT seq, text -> '$.body.ruled' AS ruled, text ->> '$.body.label' AS label,
  text ->> '$.body.by.user' AS user FROM events WHERE text ->> '$.kind' = 'decision_labelled'
  AND text ->> '$.body.ruled.session' IN (SELECT value FROM json_each(:names))
  AND seq NOT IN (SELECT text ->> '$.body.label' FROM events WHERE text ->> '$.kind' = 'label_withdrawn'))
  SELECT ruled ->> '$.gate', sum(label = 'right'), sum(label = 'too strict'), sum(label = 'too lax'),
  sum(label = 'unclear') FROM given g WHERE seq = (SELECT max(seq) FROM given o WHERE (o.ruled, o.user)
  = (g.ruled, g.user)) GROUP BY 1"""


class Recount:
    """The figures of sessions whose names fit a pattern, each by SQL over `events`."""

    def __init__(self, home: Path, sessions: str) -> None:
        self.home, self._log = home, sqlite3.connect(home / "events.db")
        first, rest = VIEWS.split(";", 1)
        self._log.execute(first, {"sessions": sessions})
        self._log.executescript(rest)
        self._log.execute("CREATE TEMP TABLE gates_of_codes (gate, code)")
        pairs = [(gate, code) for gate, codes in CODES.items() for code in codes]
        self._log.executemany("INSERT INTO gates_of_codes VALUES (?, ?)", pairs)
        self._log.row_factory = sqlite3.Row

    def close(self) -> None:
        self._log.close()

    def one(self, query: str, **values: object) -> Any:
        return self._log.execute(query, values).fetchone()[0]

    def count(self, what: str, **values: object) -> int:
        return int(self.one(f"SELECT count(*) FROM {what}", **values))

    def list(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._log.execute(query)]

    def count_gates(self) -> dict[str, dict[str, int]]:
        return {gate: dict(self._log.execute(GATE, {"gate": gate}).fetchone()) for gate in (*GATES, "postlude")}

    def count_advice(self, who: str) -> dict[str, float]:
        of = "FROM answers WHERE who = :who"
        return {
            "model_calls": self.one(f"SELECT coalesce(sum(requests), 0) {of}", who=who),
            "tokens": self.one(f"SELECT coalesce(sum(tokens), 0) {of}", who=who),
            "seconds": round(self.one("SELECT coalesce(sum(took), 0) FROM waits WHERE who = :who", who=who) / 1000, 1),
        }

    def count_approvals(self) -> dict[str, Any]:
        asked, answered = (
            self.count(f"{table} WHERE who = 'person' AND gate = 'approval'") for table in ("asked", "answers")
        )
        yes, median = self.count("yes"), self.one(MEDIAN)
        return {
            "asked": asked,
            "answered": answered,
            "accepted": yes,
            "share_accepted": round(yes / answered, 3) if answered else None,
            "median_seconds": None if median is None else round(median),
        }

    def count_repeated(self) -> dict[str, int]:
        said = "answers WHERE who = 'person' AND gate = 'loop' AND choice = :choice"
        return {
            "asked": self.count("asked WHERE who = 'person' AND gate = 'loop'"),
            **{choice: self.count(said, choice=choice) for choice in ("anyway", "stop", "more")},
        }

    def count_labels(self) -> list[tuple[Any, ...]]:
        """Return by gate how often each label of these sessions stands."""
        names = json.dumps([name for (name,) in self.list("SELECT DISTINCT session FROM of")])
        with closing(sqlite3.connect(self.home / "reviews" / "reviews.db")) as reviews:
            return reviews.execute(STANDING_LABELS, {"names": names}).fetchall()

    def count_turns(self) -> dict[str, int]:
        return {
            "sessions": self.one("SELECT count(DISTINCT session) FROM of"),
            "tasks": self.count("of WHERE kind = 'task_started'"),
            "turns": self.count("judged"),
            "calls": self.count("verdicts"),
            "held": self.count("verdicts WHERE standing != 'allow'"),
        }
