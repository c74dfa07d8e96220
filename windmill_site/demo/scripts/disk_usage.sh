# Largest folders below a place.
place="$1"
count="${2:-5}"
du -x -k --max-depth=1 "${place:-/usr}" 2>/dev/null | sort -rn | head -n "$count"
