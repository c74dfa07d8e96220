-- Those of these jobs that have not ended.
SELECT id FROM queue WHERE id = ANY(%(ids)s::uuid[])
