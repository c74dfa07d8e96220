# Looks for descriptors that it was not given: files, pipes and sockets of the worker or of the fork server.
found=""
ls -l /proc/$$/fd > descriptors.txt  # not $(...), which opens one itself
while read -r _ _ _ _ _ _ _ _ fd _ link; do
    case "$fd $link" in
        "" | " " | [012]\ /dev/null | [012]\ pipe:* | *main.sh) ;;
        *) found+=" $fd $link" ;;
    esac
done < descriptors.txt
if [ -n "$found" ]; then echo "exposed:${found:0:200}"; else echo contained; fi
