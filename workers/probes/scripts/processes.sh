# Looks for processes that are not its own, and for what the first process of its view lets it read.
parent() { local stat; stat=$(< "/proc/$1/stat") || return 1; stat=${stat##*) }; set -- $stat; echo "$2"; }
top=$$
while [ "$(parent "$top")" -gt 1 ]; do top=$(parent "$top"); done
found=""
for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    above=$pid
    while [ "$above" != 0 ] && [ "$above" != 1 ] && [ "$above" != "$top" ]; do
        above=$(parent "$above" 2>/dev/null) || { above=$top; }  # it ended meanwhile
    done
    if [ "$above" != "$top" ] && [ "$pid" != 1 ]; then found+=" process $pid"; fi
done
for name in environ mem maps; do
    if { head -c 1 "/proc/1/$name" | grep -q .; } 2>/dev/null; then found+=" /proc/1/$name"; fi
done
for name in fd root/etc cwd/; do
    if ls "/proc/1/$name" >/dev/null 2>&1; then found+=" /proc/1/$name"; fi
done
if [ -n "$found" ]; then echo "exposed:${found:0:200}"; else echo contained; fi
