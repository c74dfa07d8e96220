# Asks the platform's database to let it in without a password.
host="$1"
port="$2"
user="$3"
database="$4"
if [ "${host:0:1}" = / ]; then
    if [ -S "$host/.s.PGSQL.$port" ]; then echo "exposed: its socket is in sight"; else echo "contained: not reached"; fi
    exit
fi
if ! { exec 3<> "/dev/tcp/$host/$port"; } 2>/dev/null; then echo "contained: not reached"; exit; fi
length=$((8 + 5 + ${#user} + 1 + 9 + ${#database} + 2))
{
    printf "\\x$(printf %02x $((length >> 24)))\\x$(printf %02x $((length >> 16 & 255)))"
    printf "\\x$(printf %02x $((length >> 8 & 255)))\\x$(printf %02x $((length & 255)))"
    printf '\0\3\0\0user\0%s\0database\0%s\0\0' "$user" "$database"
} > message  # sent in one piece
cat message >&3
answer=$(head -c 9 <&3 | od -An -tx1 | tr -d ' \n')
case "$answer" in
    520000000?00000000) echo "exposed: $user needs no password" ;;
    *) echo "contained: it asks for a password, or refuses" ;;
esac
