-- A worker reports itself. Keyed by its name, which no two processes share.
INSERT INTO worker_ping (worker, worker_instance, worker_group, ip, state, custom_tags, languages, runtimes, slots, busy_slots,
                         jobs_executed, current_job_id, last_job_id, last_job_workspace_id, occupancy_rate,
                         occupancy_rate_15s, occupancy_rate_5m, occupancy_rate_30m, memory, memory_usage,
                         wm_memory_usage, vcpus, wm_version, job_isolation, isolation_note, init_log,
                         state_note, native_mode, dedicated_workers)
VALUES (%(worker)s, %(worker_instance)s, %(worker_group)s, %(ip)s, %(state)s, %(custom_tags)s, %(languages)s, %(runtimes)s, %(slots)s,
        %(busy_slots)s, %(jobs_executed)s, %(current_job_id)s, %(last_job_id)s, %(last_job_workspace_id)s,
        %(occupancy_rate)s, %(occupancy_rate_15s)s, %(occupancy_rate_5m)s, %(occupancy_rate_30m)s, %(memory)s,
        %(memory_usage)s, %(wm_memory_usage)s, %(vcpus)s, %(wm_version)s, %(job_isolation)s, %(isolation_note)s,
        %(init_log)s, %(state_note)s, %(native_mode)s, %(dedicated_workers)s)
ON CONFLICT (worker) DO UPDATE
   SET ping_at = statement_timestamp(), state = excluded.state, custom_tags = excluded.custom_tags,
       languages = excluded.languages, runtimes = excluded.runtimes, slots = excluded.slots, busy_slots = excluded.busy_slots,
       jobs_executed = excluded.jobs_executed, current_job_id = excluded.current_job_id,
       last_job_id = excluded.last_job_id, last_job_workspace_id = excluded.last_job_workspace_id,
       occupancy_rate = excluded.occupancy_rate, occupancy_rate_15s = excluded.occupancy_rate_15s,
       occupancy_rate_5m = excluded.occupancy_rate_5m, occupancy_rate_30m = excluded.occupancy_rate_30m,
       memory = excluded.memory, memory_usage = excluded.memory_usage, wm_memory_usage = excluded.wm_memory_usage,
       vcpus = excluded.vcpus, job_isolation = excluded.job_isolation, isolation_note = excluded.isolation_note,
       init_log = excluded.init_log, state_note = excluded.state_note, native_mode = excluded.native_mode,
       dedicated_workers = excluded.dedicated_workers
