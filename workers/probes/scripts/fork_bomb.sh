# limits: processes=64
# Starts processes without end, each of which does the same.
bomb() { bomb | bomb & }
bomb 2>/dev/null
sleep 600
