-- The facts behind "why is it waiting?" for a few jobs. Counts stop at %(most)s, so that a long queue costs no more.
SELECT waiting.id, statement_timestamp() AS now, waiting.tag, waiting.scheduled_for, waiting.running, waiting.worker,
       waiting.suspend, waiting.canceled_by, waiting.started_at IS NOT NULL AS has_begun,
       waiting.running AND waiting.last_ping IS NULL AS is_parked, asked.concurrent_limit AS places,
       asked.concurrency_time_window_s AS window_s,
       coalesce(listening.workers_for_tag, 0)::int AS workers_for_tag,
       coalesce(listening.free_slots, 0)::int AS free_slots,
       coalesce(listening.draining_workers, 0)::int AS draining_workers,
       coalesce(listening.silent_workers, 0)::int AS silent_workers, listening.silent_since,
       coalesce(listening.starting_workers, 0)::int AS starting_workers,
       coalesce(listening.failed_workers, 0)::int AS failed_workers,
       first.ahead::int AS ahead, first.ahead_of_workspace::int AS ahead_of_workspace, others.running_with_tag::int AS running_with_tag,
       CASE WHEN waiting.was_due_at IS NOT NULL THEN waiting.concurrency_key END AS held_back_by,
       like_it.running_with_key::int AS running_with_key, like_it.ahead_with_key::int AS ahead_with_key,
       waiting.workspace_id, waiting.script_path AS path, asked.script_lang AS language,
       lacking.told->>'missing' AS missing_tool, lacking.told->>'install' AS install,
       coalesce(script.tag, flow.tag) AS tag_setting,
       CASE WHEN position('$args[' IN coalesce(script.tag, flow.tag)) > 0 THEN asked.args::text END AS args,
       configured.groups, configured.native_groups, ranked.tags AS tags_before
  FROM queue AS waiting
  LEFT JOIN job AS asked USING (id)
  LEFT JOIN script ON script.hash = asked.runnable_id AND asked.kind = 'script'
  LEFT JOIN flow ON asked.kind = 'flow' AND flow.workspace_id = waiting.workspace_id AND flow.path = waiting.script_path
  LEFT JOIN LATERAL (
       SELECT runtimes->asked.script_lang AS told
         FROM worker_ping
        WHERE runtimes->asked.script_lang ? 'missing'
          AND ping_at > statement_timestamp() - make_interval(secs => %(alive_s)s)
        LIMIT 1) AS lacking ON true
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE is_alive AND state = 'running') AS workers_for_tag,
              sum(greatest(0, slots - busy_slots)) FILTER (WHERE is_alive AND state = 'running') AS free_slots,
              count(*) FILTER (WHERE is_alive AND state = 'draining') AS draining_workers,
              count(*) FILTER (WHERE is_alive AND state = 'starting') AS starting_workers,
              count(*) FILTER (WHERE state = 'failed') AS failed_workers,
              count(*) FILTER (WHERE NOT is_alive AND state <> 'failed') AS silent_workers,
              max(ping_at) FILTER (WHERE NOT is_alive AND state <> 'failed') AS silent_since
         FROM (SELECT state, slots, ping_at, greatest(busy_slots, coalesce(holding.jobs, 0)) AS busy_slots,
                      ping_at > statement_timestamp() - make_interval(secs => %(alive_s)s) AS is_alive
                 FROM worker_ping
                 LEFT JOIN (SELECT worker, count(*) AS jobs FROM queue  -- a report is some seconds old
                             WHERE running AND last_ping IS NOT NULL GROUP BY worker) AS holding USING (worker)
                WHERE waiting.tag = ANY(custom_tags)) AS worker) AS listening
 CROSS JOIN LATERAL (  -- groups that are to take it, and those of them that have native workers
       SELECT coalesce(array_agg(worker_group ORDER BY worker_group), '{}') AS groups,
              coalesce(array_agg(worker_group ORDER BY worker_group)
                       FILTER (WHERE EXISTS (SELECT FROM worker_ping
                                              WHERE worker_ping.worker_group = wanting.worker_group AND native_mode
                                                AND ping_at > statement_timestamp() - make_interval(secs => %(alive_s)s))),
                       '{}') AS native_groups
         FROM (SELECT substr(name, length('worker__') + 1) AS worker_group FROM config
                WHERE starts_with(name, 'worker__') AND config->'worker_tags' ? waiting.tag
                LIMIT 10) AS wanting) AS configured
 CROSS JOIN LATERAL (  -- tags that the workers of this one take first; those that name a script are not everybody's business
       SELECT coalesce(array_agg(DISTINCT rank.key ORDER BY rank.key), '{}') AS tags
         FROM worker_ping
         JOIN config ON config.name = 'worker__' || worker_group
        CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(config.config->'priority_tags')
                                      WHEN 'object' THEN config.config->'priority_tags' ELSE '{}' END) AS rank
        WHERE waiting.tag = ANY(custom_tags) AND rank.key = ANY(custom_tags) AND rank.key NOT LIKE '%%:%%'
          AND ping_at > statement_timestamp() - make_interval(secs => %(alive_s)s)
          AND rank.value > coalesce(config.config->'priority_tags'->waiting.tag, '0')) AS ranked
 CROSS JOIN LATERAL (
       SELECT count(*) AS ahead, count(*) FILTER (WHERE is_neighbour) AS ahead_of_workspace
         FROM (SELECT other.workspace_id = waiting.workspace_id AS is_neighbour FROM queue AS other
                WHERE NOT other.running AND other.suspend <= 0 AND other.tag = waiting.tag
                  AND other.scheduled_for <= statement_timestamp()
                  AND (other.priority > waiting.priority
                       OR (other.priority = waiting.priority
                           AND (other.scheduled_for, other.id) < (waiting.scheduled_for, waiting.id)))
                LIMIT %(most)s) AS counted) AS first
 CROSS JOIN LATERAL (
       SELECT count(*) AS running_with_tag
         FROM (SELECT FROM queue AS other WHERE other.running AND other.tag = waiting.tag LIMIT %(most)s) AS counted
       ) AS others
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE began) AS running_with_key, count(*) FILTER (WHERE NOT began) AS ahead_with_key
         FROM (SELECT other.started_at IS NOT NULL AS began FROM queue AS other
                WHERE waiting.was_due_at IS NOT NULL AND other.concurrency_key = waiting.concurrency_key
                  AND (other.started_at IS NOT NULL
                       OR other.priority > waiting.priority AND other.was_due_at IS NOT NULL
                       OR other.priority = waiting.priority
                          AND (other.was_due_at, other.id) < (waiting.was_due_at, waiting.id))
                LIMIT %(most)s) AS counted) AS like_it
 WHERE waiting.id = ANY(%(ids)s::uuid[])
   AND (%(workspace_id)s::text IS NULL OR waiting.workspace_id = %(workspace_id)s::text)
