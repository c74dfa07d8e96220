-- Forget places that no longer count and whose key nobody asks for any more (take_place clears those of its own key).
DELETE FROM concurrency_key AS place
 WHERE NOT EXISTS (SELECT FROM queue WHERE queue.id = place.job_id)
   AND NOT EXISTS (SELECT FROM completed_job AS done JOIN job ON job.id = done.id
                    WHERE done.id = place.job_id
                      AND done.completed_at + make_interval(secs => coalesce(job.concurrency_time_window_s, 0))
                          > statement_timestamp())
