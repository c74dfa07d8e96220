# Talks to an address that jobs must not reach.
address="$1"
port="$2"
if timeout 3 bash -c "exec 3<> /dev/tcp/$address/$port" 2>/dev/null; then
    echo "exposed: TCP"
elif timeout 1 bash -c "exec 3<> /dev/udp/$address/$port && echo probe >&3 && head -c 1 <&3 | grep -q ." 2>/dev/null; then
    echo "exposed: UDP"
else
    echo contained
fi
