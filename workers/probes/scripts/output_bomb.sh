# limits: output=1MB
# Prints 100 MB in lines, then a line of 100 MB.
yes "a line that says nothing" | head -c 100M
tr '\0' x < /dev/zero | head -c 100M
echo
echo contained  # the rest of it is not kept; the job goes on
