-- How far these flow jobs are (%(ids)s): their small state, and the modules that have ended as {step id: status}.
SELECT flow_status.id, flow_status.version, flow_status.state,
       (SELECT json_object_agg(step_id, status) FROM flow_step WHERE flow_step.flow_id = flow_status.id) AS steps
  FROM flow_status
 WHERE flow_status.id = ANY(%(ids)s::uuid[])
