-- Flows that are parked although nothing of theirs is in the queue: a step's end was not followed by an advance (a worker
-- that could record it and no more). The job started last is looked at first, so that a long loop costs one probe.
SELECT parked.id
  FROM queue AS parked
  JOIN flow_status ON flow_status.id = parked.id
 WHERE parked.running AND parked.last_ping IS NULL
   AND NOT EXISTS (SELECT FROM queue AS newest
                    WHERE newest.id = (flow_status.state #>> '{module,job}')::uuid)
   AND NOT EXISTS (SELECT FROM job AS child JOIN queue AS running ON running.id = child.id
                    WHERE child.parent_job = parked.id AND child.flow_step_id IS NOT NULL)
 LIMIT 500
