-- Two functions: where a result is (a Ref of jobs/flows/state.py) to the result itself, and the one writer of flows.
--
-- advance_flows performs everything that follows from one event, or nothing: it stores the new states, queues and
-- records jobs, and hands the next job to the worker that calls. Who may: the holder of a lease (a step that has ended, or
-- a flow that was claimed), as long as every flow still has the version that they have seen. Otherwise it raises
-- WM001 (the lease is over) or WM002 (a flow has changed; look again).
--
-- One function instead of one statement a file: the parts see each other's rows, and all is one round trip.

CREATE OR REPLACE FUNCTION flow_result_value(ref json) RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE
    kind text := (SELECT key FROM json_each(ref) LIMIT 1);
    found json;
BEGIN
    CASE kind
    WHEN 'job' THEN
        SELECT result INTO found FROM completed_job WHERE id = (ref->>'job')::uuid;
    WHEN 'list' THEN
        SELECT json_agg(coalesce(done.result, 'null'::json) ORDER BY iteration.n) INTO found
          FROM flow_iteration AS iteration
          LEFT JOIN completed_job AS done ON done.id = iteration.job_id
         WHERE iteration.flow_id = (ref->'list'->>0)::uuid AND iteration.step_id = ref->'list'->>1
           AND iteration.n < (ref->'list'->>2)::int;
        found := coalesce(found, '[]'::json);
    WHEN 'args' THEN
        SELECT args::json INTO found FROM job WHERE id = (ref->>'args')::uuid;
    WHEN 'value' THEN
        found := ref->'value';
    WHEN 'with_result' THEN
        found := jsonb_set((ref->'with_result'->'error')::jsonb, '{error,result}',
                           coalesce(flow_result_value(ref->'with_result'->'of')::jsonb, 'null'::jsonb))::json;
    END CASE;
    RETURN coalesce(found, 'null'::json);
END
$$;

CREATE OR REPLACE FUNCTION advance_flows(doc json, texts text[]) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    lease json := doc->'lease';
    worker_name text := doc->>'worker';
    part json;
    outcome json;
    ended queue%ROWTYPE;
    moment timestamptz := statement_timestamp();
BEGIN
    -- The caller still holds what it speaks for.
    PERFORM FROM queue
      WHERE id = (lease->>'id')::uuid AND attempt = (lease->>'attempt')::int AND running AND last_ping IS NOT NULL
        FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the lease is over' USING ERRCODE = 'WM001';
    END IF;

    -- Nobody has changed the flows since they were read. Inner flows come first, here and everywhere.
    FOR part IN SELECT value FROM json_array_elements(doc->'flows') LOOP
        UPDATE flow_status SET state = part->'state', version = version + 1
         WHERE id = (part->>'id')::uuid AND version = (part->>'version')::bigint
           AND EXISTS (SELECT FROM queue WHERE queue.id = flow_status.id);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'flow % has changed', part->>'id' USING ERRCODE = 'WM002';
        END IF;
    END LOOP;

    IF doc->'iterations' IS NOT NULL THEN
        -- A plan is read once (OFFSET keeps it so), not once for each of its iterations, and its two arrays side by side:
        -- picking one value of a long array reads all that come before it.
        INSERT INTO flow_iteration (flow_id, step_id, n, job_id, value)
        SELECT plan.flow_id, plan.step_id, plan.first + (item.n - 1)::int, item.id::uuid, item.value
          FROM (SELECT (value->>'flow_id')::uuid AS flow_id, value->>'step_id' AS step_id,
                       (value->>'first')::int AS first, value->'ids' AS ids,
                       CASE json_typeof(value->'values') WHEN 'array' THEN value->'values' ELSE '[]'::json END AS items
                  FROM json_array_elements(doc->'iterations') OFFSET 0) AS plan,
               ROWS FROM (json_array_elements_text(plan.ids), json_array_elements(plan.items))
               WITH ORDINALITY AS item (id, value, n)
            ON CONFLICT (flow_id, step_id, n) DO UPDATE SET job_id = excluded.job_id, value = excluded.value;
    END IF;

    IF doc->'jobs' IS NOT NULL THEN
        INSERT INTO job (id, workspace_id, kind, runnable_id, runnable_path, raw_code, script_lang,
                         script_entrypoint_override, args, tag, created_by, permissioned_as, permissioned_as_email,
                         parent_job, root_job, flow_step_id, flow_innermost_root_job, flow_body, flow_n, trigger_kind,
                         trigger, timeout, priority, visible_to_owner, preprocessed, same_worker, cache_ttl,
                         delete_after_secs, concurrency_key, concurrent_limit, concurrency_time_window_s, raw_lock)
        SELECT new.id, new.workspace_id, new.kind, new.runnable_id, new.runnable_path, new.raw_code, new.script_lang,
               new.script_entrypoint_override,
               CASE WHEN new.args_of IS NULL THEN new.args ELSE (SELECT args FROM job WHERE id = new.args_of) END,
               new.tag, new.created_by, new.permissioned_as, new.permissioned_as_email, new.parent_job, new.root_job,
               new.flow_step_id, new.flow_innermost_root_job, new.flow_body, new.flow_n, new.trigger_kind, new.trigger,
               new.timeout, new.priority, new.visible_to_owner, new.preprocessed, new.same_worker, new.cache_ttl,
               new.delete_after_secs, new.concurrency_key, new.concurrent_limit, new.concurrency_time_window_s, new.raw_lock
          FROM json_to_recordset(doc->'jobs') AS new (
               id uuid, workspace_id text, kind text, runnable_id bigint, runnable_path text, raw_code text,
               script_lang text, script_entrypoint_override text, args jsonb, args_of uuid, tag text, created_by text,
               permissioned_as text, permissioned_as_email text, parent_job uuid, root_job uuid, flow_step_id text,
               flow_innermost_root_job uuid, flow_body text, flow_n int, trigger_kind text, trigger text, timeout int,
               priority smallint, visible_to_owner boolean, preprocessed boolean, same_worker boolean, cache_ttl int,
               delete_after_secs int, concurrency_key text, concurrent_limit int, concurrency_time_window_s int,
               raw_lock text);
        INSERT INTO flow_status (id, workspace_id, state)
        SELECT new.id, new.workspace_id, new.flow_state
          FROM json_to_recordset(doc->'jobs') AS new (id uuid, workspace_id text, flow_state json)
         WHERE new.flow_state IS NOT NULL;
        -- place: 'queue' for anybody, 'here' for the calling worker, 'parked' for flows that wait for a step,
        -- nothing for jobs that have ended already.
        INSERT INTO queue (id, workspace_id, script_path, tag, priority, concurrency_key, scheduled_for, running, worker,
                           started_at, last_ping, attempt)
        SELECT new.id, new.workspace_id, new.runnable_path, new.tag, new.priority, new.concurrency_key,
               moment + make_interval(secs => coalesce(new.delay_s, 0)), new.place <> 'queue',
               CASE WHEN new.place <> 'queue' THEN worker_name END, CASE WHEN new.place <> 'queue' THEN moment END,
               CASE WHEN new.place = 'here' THEN moment END, CASE WHEN new.place = 'queue' THEN 0 ELSE 1 END
          FROM json_to_recordset(doc->'jobs') AS new (
               id uuid, workspace_id text, runnable_path text, tag text, priority smallint, concurrency_key text,
               delay_s float8, place text)
         WHERE new.place IS NOT NULL;
    END IF;

    IF doc->'cleanup' IS NOT NULL THEN
        INSERT INTO job_cleanup (job_id, top_id, after_s)
        SELECT new.job_id, new.top_id, new.after_s
          FROM json_to_recordset(doc->'cleanup') AS new (job_id uuid, top_id uuid, after_s int);
    END IF;

    IF doc->'set_args' IS NOT NULL THEN
        FOR part IN SELECT value FROM json_array_elements(doc->'set_args') LOOP
            UPDATE job SET args = flow_result_value(part->'ref')::jsonb, preprocessed = true
             WHERE id = (part->>'id')::uuid;
        END LOOP;
    END IF;

    IF doc->'steps' IS NOT NULL THEN
        FOR part IN SELECT value FROM json_array_elements(doc->'steps') LOOP
            INSERT INTO flow_step (flow_id, step_id, status, result)
            VALUES ((part->>'flow_id')::uuid, part->>'step_id', part->'status', part->'result')
                ON CONFLICT (flow_id, step_id) DO UPDATE SET status = excluded.status, result = excluded.result;
        END LOOP;
    END IF;
    IF doc->'approvers' IS NOT NULL THEN
        FOR part IN SELECT value FROM json_array_elements(doc->'approvers') LOOP
            UPDATE flow_step
               SET status = (status::jsonb || jsonb_build_object('approvers', (part->'approvers')::jsonb))::json
             WHERE flow_id = (part->>'flow_id')::uuid AND step_id = part->>'step_id';
            -- What was said to the flow as a whole has counted now: a later approval needs answers of its own.
            UPDATE resume_job SET job_id = (part->>'job')::uuid WHERE job_id = (part->>'flow_id')::uuid;
        END LOOP;
    END IF;
    IF doc->'results' IS NOT NULL THEN
        FOR part IN SELECT value FROM json_array_elements(doc->'results') LOOP
            INSERT INTO flow_result (root_id, step_id, result)
            VALUES ((part->>'root_id')::uuid, part->>'step_id', part->'result')
                ON CONFLICT (root_id, step_id) DO UPDATE SET result = excluded.result;
        END LOOP;
    END IF;

    -- What has ended, in the order in which it did: results of later ones may be results of earlier ones.
    FOR part IN SELECT value FROM json_array_elements(doc->'ended') LOOP
        outcome := CASE WHEN part->'text' IS NOT NULL THEN texts[(part->>'text')::int]::json
                        ELSE flow_result_value(part->'ref') END;
        IF (part->>'instant')::boolean THEN
            INSERT INTO completed_job (id, workspace_id, status, started_at, completed_at, duration_ms, result, worker)
            VALUES ((part->>'id')::uuid, part->>'workspace_id', part->>'status', moment, moment, 0, outcome, worker_name);
            CONTINUE;
        END IF;
        DELETE FROM queue WHERE id = (part->>'id')::uuid RETURNING * INTO ended;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'job % has ended already', part->>'id' USING ERRCODE = 'WM002';
        END IF;
        INSERT INTO completed_job (id, workspace_id, status, started_at, completed_at, duration_ms, result, worker,
                                   mem_peak, canceled_by, canceled_reason, restarts, labels, isolation)
        VALUES (ended.id, ended.workspace_id, part->>'status', ended.started_at, moment,
                coalesce(greatest(0, round(extract(epoch FROM moment - ended.started_at) * 1000)), 0)::bigint, outcome,
                coalesce(ended.worker, worker_name), greatest(ended.mem_peak, (part->>'mem_peak')::int),
                ended.canceled_by, ended.canceled_reason, ended.restarts,
                CASE WHEN json_typeof(part->'labels') = 'array'
                     THEN ARRAY(SELECT json_array_elements_text(part->'labels')) END,
                part->>'isolation');
    END LOOP;

    -- Where the flows that go on wait: parked for a step, asleep or suspended until a time.
    IF doc->'waits' IS NULL THEN
        RETURN moment;
    END IF;
    FOR part IN SELECT value FROM json_array_elements(doc->'waits') LOOP
        UPDATE queue
           SET running = part->>'wait' = 'parked', last_ping = NULL, restarts = 0, attempt = attempt + 1,
               worker = coalesce(worker, worker_name), started_at = coalesce(started_at, moment),
               suspend = coalesce((part->>'suspend')::int, 0),
               suspend_until = CASE WHEN part->>'suspend' IS NOT NULL THEN to_timestamp((part->>'until')::float8) END,
               scheduled_for = CASE WHEN part->>'until' IS NULL THEN scheduled_for
                                    ELSE to_timestamp((part->>'until')::float8) END
         WHERE id = (part->>'id')::uuid;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'flow % has ended', part->>'id' USING ERRCODE = 'WM002';
        END IF;
    END LOOP;
    RETURN moment;
END
$$;
