-- See functions/take_place.sql.
SELECT outcome, due_at, offered_tags FROM take_place(%(id)s, %(attempt)s)
