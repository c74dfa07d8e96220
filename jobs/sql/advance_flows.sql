-- Perform everything that follows from one event (functions/advance_flows.sql), or raise. With it comes the instance's
-- default timeout, for the job that this worker goes on with.
SELECT advance_flows(%(document)s::json, %(texts)s::text[]),
       (SELECT CASE WHEN jsonb_typeof(value) = 'number' THEN least(greatest(value::numeric, 1), 2147483647)::int END
          FROM global_settings WHERE name = 'job_default_timeout')
