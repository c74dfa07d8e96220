-- Wake flows: whatever they wait for, somebody shall look again. Called with every change that a flow must not miss (a step
-- ended outside of its worker, an approval, a cancel) in the transaction of that change.
-- The version counts up, so that a worker which is advancing the flow just now notices; a flow that is parked, asleep or
-- suspended becomes claimable at once. A flow that somebody holds stays theirs, one that has not begun waits for its time.
WITH touched AS (
    UPDATE flow_status SET version = version + 1 WHERE id = ANY(%(ids)s::uuid[]) RETURNING id
)
UPDATE queue
   SET running = false, scheduled_for = CASE WHEN running THEN statement_timestamp()
                                             ELSE least(scheduled_for, statement_timestamp()) END
  FROM touched
 WHERE queue.id = touched.id AND queue.id = ANY(%(ids)s::uuid[]) AND queue.last_ping IS NULL AND queue.started_at IS NOT NULL
RETURNING queue.id, queue.tag
