# Reads what is hidden, lists the homes and temporary folders of others, and writes into the system.
hidden="$1"  # one path a line
found=""
while read -r path; do
    if [ -n "$path" ] && [ -n "$(ls -A "$path" 2>/dev/null)" ]; then found+=" listed $path"; fi
done <<< "$hidden"
# Of some, what leads to the tools of jobs is in sight: no file of theirs is.
for path in /root /home /run /srv /var/lib /mnt /.old /.shares; do
    file=$(find "$path/" -maxdepth 1 -type f 2>/dev/null | head -n 1) || true
    if [ -n "$file" ]; then found+=" saw $file"; fi
done
for path in /etc/shadow /etc/gshadow /proc/kcore /dev/kmsg /dev/sda /dev/vda; do
    if { head -c 1 "$path" | grep -q .; } 2>/dev/null; then found+=" read $path"; fi
done
for path in "" /usr /etc /bin /opt /root /home /var /dev /sys; do
    if mkdir "$path/probe-$$" 2>/dev/null; then rmdir "$path/probe-$$"; found+=" wrote into $path/"; fi
done
if [ -n "$found" ]; then echo "exposed:${found:0:200}"; else echo contained; fi
