# Writes into what jobs have in common: the folders of tools, the cache of dependencies. It changes nothing that is there.
shared="$1"  # one path a line
found=""
while read -r folder; do
    if [ -z "$folder" ]; then continue; fi
    if mkdir "$folder/node_modules-$$" 2>/dev/null; then rmdir "$folder/node_modules-$$"; found+=" planted $folder/node_modules"; fi
    if { : > "$folder/planted-$$.pth"; } 2>/dev/null; then rm "$folder/planted-$$.pth"; found+=" planted $folder/planted-$$.pth"; fi
    if ln "$0" "$folder/linked-$$" 2>/dev/null; then rm "$folder/linked-$$"; found+=" linked into $folder"; fi
done <<< "$shared
$(dirname "$(command -v bash)")
/usr/lib
/usr/local/lib"
if [ -n "$found" ]; then echo "exposed:${found:0:200}"; else echo contained; fi
