-- The jobs whose time to be forgotten has come, one batch, taken off the list.
-- %(top_id)s: of this job or flow only; null: any.
DELETE FROM job_cleanup
 WHERE job_id IN (SELECT job_id
                    FROM job_cleanup
                   WHERE due_at <= statement_timestamp() AND (%(top_id)s::uuid IS NULL OR top_id = %(top_id)s::uuid)
                   ORDER BY due_at LIMIT %(batch)s FOR UPDATE SKIP LOCKED)
RETURNING job_id
