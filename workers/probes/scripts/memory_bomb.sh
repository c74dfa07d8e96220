# limits: memory=96MB
# Takes memory without end.
text=$(printf '%01048576d' 0)
for _ in $(seq 12); do text=$text$text; done
echo "exposed: $((${#text} >> 20)) MB"
