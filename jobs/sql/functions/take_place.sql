-- Take a place among the jobs of one concurrency key, or go back into the queue: for a job just claimed (attempt = its
-- claim) that has a concurrent_limit. Answers one row:
--   outcome       taken, held back (the claim is over), or lost (it was over before)
--   due_at        held back: when somebody looks again at the latest
--   offered_tags  tags of waiting jobs that became due
-- Two snapshots matter: the lock is waited for in one statement and what counts is read by those after it, so this cannot
-- be a plain statement. `clock_timestamp` for the same reason: the statement began before the wait for the lock.
CREATE FUNCTION take_place(claimed_id uuid, claimed_attempt integer)
RETURNS TABLE (outcome text, due_at timestamptz, offered_tags text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    me record;
    moment timestamptz;
    free integer;
    rank integer;
    next_at timestamptz;
    step_s double precision;
    first_in_line uuid[];
    older_count integer;
    takes boolean := false;
    tags text[] := '{}';
BEGIN
    SELECT queue.concurrency_key AS key, queue.workspace_id, queue.priority, queue.canceled_by,
           coalesce(queue.was_due_at, queue.scheduled_for) AS since, job.concurrent_limit AS places,
           coalesce(job.concurrency_time_window_s, 0) AS window_s
      INTO me
      FROM queue JOIN job ON job.id = queue.id
     WHERE queue.id = claimed_id AND queue.attempt = claimed_attempt AND queue.running;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'lost', NULL::timestamptz, tags;
        RETURN;
    END IF;
    IF me.canceled_by IS NOT NULL OR me.key IS NULL OR coalesce(me.places, 0) <= 0 THEN
        RETURN QUERY SELECT 'taken', NULL::timestamptz, tags;
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(me.key, 2003790947));
    moment := clock_timestamp();
    IF EXISTS (SELECT FROM concurrency_key AS place
                WHERE place.job_id = claimed_id AND place.key = me.key AND place.ended_at IS NULL) THEN
        -- A flow that goes on, or a job that begins again before anybody missed it.
        RETURN QUERY SELECT 'taken', NULL::timestamptz, tags;
        RETURN;
    END IF;

    -- Places of jobs that have ended, went back into the queue or were deleted.
    UPDATE concurrency_key AS place
       SET ended_at = done.completed_at
      FROM completed_job AS done
     WHERE place.key = me.key AND place.ended_at IS NULL AND done.id = place.job_id;
    DELETE FROM concurrency_key AS place
     WHERE place.key = me.key
       AND (place.ended_at <= moment - make_interval(secs => me.window_s)
            OR place.ended_at IS NULL
               AND NOT EXISTS (SELECT FROM queue WHERE queue.id = place.job_id AND queue.started_at IS NOT NULL)
               AND NOT EXISTS (SELECT FROM completed_job AS done WHERE done.id = place.job_id));
    SELECT me.places - count(*) INTO free
      FROM concurrency_key AS place WHERE place.key = me.key AND place.job_id <> claimed_id;

    IF free > 0 THEN
        -- Those held back longer go first. They become due at once; this job goes on if a place is left for it. (One that
        -- is due already and was not claimed has no free worker: nobody waits for it.)
        SELECT coalesce(array_agg(line.id), '{}'), count(*) FILTER (WHERE line.is_older)
          INTO first_in_line, older_count
          FROM (SELECT queue.id, queue.priority > me.priority OR queue.priority = me.priority
                                 AND (queue.was_due_at, queue.id) < (me.since, claimed_id) AS is_older
                  FROM queue
                 WHERE queue.concurrency_key = me.key AND queue.was_due_at IS NOT NULL AND NOT queue.running
                   AND queue.scheduled_for > moment AND queue.id <> claimed_id
                 ORDER BY queue.priority DESC, queue.was_due_at, queue.id
                 LIMIT free) AS line;
        takes := older_count < free;
        WITH offered AS (
            UPDATE queue SET scheduled_for = queue.was_due_at
             WHERE queue.id = ANY(first_in_line[1 : free - takes::integer]) AND NOT queue.running
            RETURNING queue.tag)
        SELECT coalesce(array_agg(DISTINCT offered.tag), '{}') INTO tags FROM offered;
    END IF;

    IF takes THEN
        INSERT INTO concurrency_key (job_id, key) VALUES (claimed_id, me.key)
            ON CONFLICT (job_id) DO UPDATE SET key = excluded.key, ended_at = NULL;
        UPDATE queue SET was_due_at = NULL WHERE queue.id = claimed_id AND queue.was_due_at IS NOT NULL;
        RETURN QUERY SELECT 'taken', NULL::timestamptz, tags;
        RETURN;
    END IF;

    -- Held back. Whoever leaves a place offers it to the next in line (offer_place.sql); the time to look again is for
    -- places that nobody offers, because the window has to pass or a worker died. It grows with the time waited, and
    -- those in line look one after the other, so that a long line costs little.
    SELECT min(place.ended_at) + make_interval(secs => me.window_s) INTO next_at
      FROM concurrency_key AS place WHERE place.key = me.key AND place.ended_at IS NOT NULL;
    next_at := greatest(moment + interval '0.1 s',
                        coalesce(next_at, moment + least(interval '5 min',
                                                         greatest(interval '10 s', (moment - me.since) / 2))));
    step_s := greatest(me.window_s, 0.1);
    SELECT count(*) INTO rank
      FROM (SELECT FROM queue
             WHERE queue.concurrency_key = me.key AND queue.was_due_at IS NOT NULL AND NOT queue.running
               AND (queue.priority > me.priority OR queue.priority = me.priority
                    AND (queue.was_due_at, queue.id) < (me.since, claimed_id))
             LIMIT 10000) AS older;
    next_at := next_at + make_interval(secs => rank / me.places * step_s);
    UPDATE queue
       SET running = false, started_at = NULL, worker = NULL, last_ping = NULL,
           scheduled_for = next_at, was_due_at = me.since
     WHERE queue.id = claimed_id AND queue.attempt = claimed_attempt AND queue.running;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'lost', NULL::timestamptz, tags;
        RETURN;
    END IF;
    INSERT INTO job_logs (job_id, log_offset, workspace_id, logs)
    SELECT claimed_id, coalesce((SELECT last.log_offset + length(last.logs) FROM job_logs AS last
                                  WHERE last.job_id = claimed_id ORDER BY last.log_offset DESC LIMIT 1), 0),
           me.workspace_id,
           format(E'Re-scheduled job to %s due to concurrency limits with key %s and limit %s in the last %s seconds\n',
                  to_char(next_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'), me.key, me.places, me.window_s)
        ON CONFLICT DO NOTHING;
    IF free <= 0 THEN
        -- Nobody needs to claim the others of this key, one by one, to find the same.
        WITH due AS (
            SELECT queue.id, queue.priority, queue.scheduled_for
              FROM queue
             WHERE queue.concurrency_key = me.key AND NOT queue.running AND queue.started_at IS NULL
               AND queue.was_due_at IS NULL AND queue.canceled_by IS NULL AND queue.scheduled_for <= moment
             LIMIT 1000
               FOR UPDATE SKIP LOCKED
        ), line AS (
            SELECT due.id, row_number() OVER (ORDER BY due.priority DESC, due.scheduled_for, due.id) AS place FROM due
        )
        UPDATE queue
           SET was_due_at = queue.scheduled_for,
               scheduled_for = next_at + make_interval(secs => line.place / me.places * step_s)
          FROM line
         WHERE queue.id = line.id;
    END IF;
    RETURN QUERY SELECT 'held back', next_at, tags;
END
$$;
